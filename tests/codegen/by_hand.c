/* A model written by hand against gt_abi.h, for the tests of what stands around generated C.
 *
 * y[B,3] = x[B,3] * w[3] + total[3], picked[2] = w[i[2]], loss = sum(y); the state counts the calls and adds the
 * sums of y's columns into total. An index out of range fails before the state is touched.
 */
#include "gt_abi.h"
#include <math.h>
#include <string.h>

#define ROW 3

#if defined(BY_HAND_BLAS)
#define NEEDS_BLAS 1
#else
#define NEEDS_BLAS 0
#endif

static int32_t init(void *state) {
    memset(state, 0, 128);
    return GT_OK;
}

static int32_t call(gt_args *args) {
    const float *x = args->in[0], *w = args->in[1];
    const int64_t *i = args->in[2];
    float *y = args->out[0], *picked = args->out[1], *total = (float *)((char *)args->state + 64);
    int64_t *calls = args->state;
    double *sums = args->work;
    if (args->size < (int64_t)sizeof(gt_args)) return GT_ERR_ABI;
    for (int k = 0; k < 2; k++)
        if (i[k] < 0 || i[k] >= ROW) {
            args->err_node = 1;
            args->err_index = i[k];
            return GT_ERR_INDEX;
        }
    for (int j = 0; j < ROW; j++) sums[j] = 0;
    for (int64_t b = 0; b < args->dims[0]; b++)
        for (int j = 0; j < ROW; j++) {
            y[ROW * b + j] = x[ROW * b + j] * w[j] + total[j];
            sums[j] += (double)y[ROW * b + j];
        }
#if NEEDS_BLAS
    const int32_t one = 1, n = (int32_t)args->dims[0], k = ROW;
    const float alpha = 1, beta = 0;
    if (!args->blas) return GT_ERR_BLAS;
    /* column-major: y[B,1] = x[B,3] w[3,1], stored in the first B elements */
    args->blas->sgemm("T", "N", &n, &one, &k, &alpha, x, &k, w, &k, &beta, y, &n);
#endif
    picked[0] = w[i[0]];
    picked[1] = w[i[1]];
    args->loss = sums[0] + sums[1] + sums[2];
    for (int j = 0; j < ROW; j++) total[j] += (float)sums[j];
    *calls += 1;
    return GT_OK;
}

static int32_t run(gt_args *args, gt_loop *loop) {
    const void *in[4];
    gt_args step = *args;
    int32_t code = GT_OK;
    memcpy(in, args->in, sizeof in);
    step.in = in;
    for (loop->done = 0; loop->done < loop->steps && !(loop->stop && *loop->stop); loop->done++) {
        const float *all = args->in[0];
        in[0] = all + ROW * (loop->first + loop->done * loop->batch);
        if (loop->rows) {
            for (int64_t b = 0; b < loop->batch; b++)
                memcpy((float *)loop->gather + ROW * b, all + ROW * loop->rows[loop->done * loop->batch + b],
                       ROW * sizeof(float));
            in[0] = loop->gather;
        }
        code = call(&step);
        if (code) break;
        if (loop->losses) loop->losses[loop->done] = step.loss;
    }
    args->loss = step.loss;
    args->err_node = step.err_node;
    args->err_index = step.err_index;
    return code;
}

static const int64_t matrix[] = {-1, ROW}, vector[] = {ROW}, two[] = {2}, none[] = {0};
static const gt_array inputs[] = {
    {"x", "f32", 2, matrix, 1, 8 * ROW * 4, 0},
    {"w", "f32", 1, vector, 1, ROW * 4, 0},
    {"i", "i64", 1, two, 1, 16, 0},
    {"nothing", "b1", 1, none, 1, 0, 0},
};
static const gt_array outputs[] = {{"y", "f32", 2, matrix, 1, 8 * ROW * 4, 0}, {"picked", "f32", 1, two, 1, 8, 0}};
static const gt_array state[] = {{"calls", "i64", 0, 0, 1, 8, 0}, {"total", "f32", 1, vector, 1, ROW * 4, 64}};
static const gt_dim dims[] = {{"B", 8}};
static const char *const equations[] = {"y = x * w + total", "picked = w[i]  # Márton"};

static const gt_model model = {
    .abi = GT_ABI_VERSION,
    .name = "by_hand",
    .state_bytes = 128,
    .work_bytes = 64,
    .needs_blas = NEEDS_BLAS,
    .n_inputs = 4,
    .n_outputs = 2,
    .n_state = 2,
    .n_dims = 1,
    .n_equations = 2,
    .inputs = inputs,
    .outputs = outputs,
    .state = state,
    .dims = dims,
    .equations = equations,
    .init = init,
    .call = call,
    .run = run,
};

const gt_model *gt_model_get(void) { return &model; }
