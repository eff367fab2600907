/* Runs a model, one call or a loop over batches, on memory of exactly the size that its description asks
 * for: what it reads or writes outside is seen by a sanitizer. Arrays without bytes are NULL, memory starts
 * as FILL (0xA5), but with -DUNWRITTEN not the workspace, so that valgrind sees what depends on it. A call gets no
 * BLAS table but with -DWITH_BLAS a plain one.
 *
 * stdin, int64 each: dims; steps (-1: one call), batch, first; the number of rows (-1: none), and the rows;
 * then for each input its bytes, whether it is batched, and the data; the bytes of the state, and the state.
 * stdout: code, err_node, err_index, done, loss, then the outputs, the inputs, the state and the losses.
 */
#include "gt_abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef FILL
#define FILL 0xA5
#endif

static void *unwritten(int64_t bytes)
{
    void *p = NULL;
    if (bytes && posix_memalign(&p, 64, (size_t)bytes))
        exit(3);
    return p;
}

static void *room(int64_t bytes)
{
    void *p = unwritten(bytes);
    if (bytes)
        memset(p, FILL, (size_t)bytes);
    return p;
}

static void take(void *p, int64_t bytes)
{
    if (bytes && fread(p, (size_t)bytes, 1, stdin) != 1)
        exit(3);
}

static int64_t number(void)
{
    int64_t n;
    take(&n, sizeof n);
    return n;
}

static void give(const void *p, int64_t bytes)
{
    if (bytes)
        fwrite(p, (size_t)bytes, 1, stdout);
}

#ifdef WITH_BLAS
#define GEMM(name, type)                                                                                         \
    static void name(const char *ta, const char *tb, const int32_t *m, const int32_t *n, const int32_t *k,       \
                     const type *alpha, const type *a, const int32_t *lda, const type *b, const int32_t *ldb,    \
                     const type *beta, type *c, const int32_t *ldc)                                              \
    {                                                                                                            \
        if (*lda < (*ta == 'N' ? *m : *k) || *ldb < (*tb == 'N' ? *k : *n) || *ldc < *m || *lda < 1)             \
            abort();                                                                                             \
        for (int64_t j = 0; j < *n; ++j)                                                                         \
            for (int64_t i = 0; i < *m; ++i) {                                                                   \
                type sum = 0;                                                                                    \
                for (int64_t p = 0; p < *k; ++p)                                                                 \
                    sum += a[*ta == 'N' ? i + *lda * p : p + *lda * i] * b[*tb == 'N' ? p + *ldb * j : j + *ldb * p]; \
                c[i + *ldc * j] = *alpha * sum + (*beta == 0 ? 0 : *beta * c[i + *ldc * j]);                     \
            }                                                                                                    \
    }
GEMM(sgemm, float)
GEMM(dgemm, double)
#endif

int main(void)
{
    const gt_model *model = gt_model_get();
    int64_t dims[8] = {0};
    for (int64_t n = 0; n < model->n_dims; ++n)
        dims[n] = number();
    gt_loop loop = {.size = sizeof loop};
    loop.steps = number();
    loop.batch = number();
    loop.first = number();
    int64_t rows = number();
    int64_t *row = room(rows > 0 ? 8 * rows : 0);
    take(row, rows > 0 ? 8 * rows : 0);
    loop.rows = rows < 0 ? NULL : row;

    void *in[256], *out[256];
    int64_t in_bytes[256];
    uint8_t batched[256];
    int64_t gather = 0;
    for (int64_t n = 0; n < model->n_inputs; ++n) {
        in_bytes[n] = number();
        batched[n] = number() != 0;
        in[n] = room(in_bytes[n]);
        take(in[n], in_bytes[n]);
        gather += batched[n] ? (model->inputs[n].bytes + 63) / 64 * 64 : 0;
    }
    loop.batched = batched;
    loop.gather = room(gather);
    loop.losses = room(loop.steps > 0 ? 8 * loop.steps : 0);
    for (int64_t n = 0; n < model->n_outputs; ++n)
        out[n] = room(model->outputs[n].bytes);
    void *state = room(model->state_bytes);
    model->init(state);
    for (int64_t n = 0; n < model->state_bytes; ++n)
        if (((char *)state)[n])
            exit(4);
    if (number() != model->state_bytes)
        exit(5);
    take(state, model->state_bytes);

    gt_args args = {.size = sizeof args, .in = (const void *const *)in, .out = out, .state = state, .dims = dims};
#ifdef UNWRITTEN
    args.work = unwritten(model->work_bytes);
#else
    args.work = room(model->work_bytes);
#endif
#ifdef WITH_BLAS
    const gt_blas blas = {sizeof blas, sgemm, dgemm};
    args.blas = &blas;
#endif
    int64_t code = loop.steps < 0 ? model->call(&args) : model->run(&args, &loop);

    give(&code, 8);
    give(&args.err_node, 8);
    give(&args.err_index, 8);
    give(&loop.done, 8);
    give(&args.loss, 8);
    for (int64_t n = 0; n < model->n_outputs; ++n)
        give(out[n], model->outputs[n].bytes);
    for (int64_t n = 0; n < model->n_inputs; ++n)
        give(in[n], in_bytes[n]);
    give(state, model->state_bytes);
    give(loop.losses, loop.steps > 0 ? 8 * loop.steps : 0);

    for (int64_t n = 0; n < model->n_outputs; ++n)
        free(out[n]);
    for (int64_t n = 0; n < model->n_inputs; ++n)
        free(in[n]);
    free(row), free(loop.gather), free(loop.losses), free(state), free(args.work);
    return 0;
}
