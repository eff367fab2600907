/* gt_abi.h: the binary interface of every compiled gtensor model, version 1.
 *
 * A model is a shared library (or a C file) with one entry point, gt_model_get(), which returns its
 * description: what it takes, what it gives, how much memory it needs, and its three functions. The
 * caller owns all memory; the model allocates nothing and has no globals, so any number of states can
 * be used at once. A workspace belongs to one call at a time. All arrays are C-contiguous; state and
 * work are aligned to 64 bytes.
 */
#ifndef GT_ABI_H
#define GT_ABI_H

#include <stdint.h>

#define GT_ABI_VERSION 1

/* What call and run return. */
#define GT_OK 0
#define GT_ERR_INDEX 1 /* an index out of range: err_node says in which equation, err_index its value */
#define GT_ERR_ABI 2   /* the caller was built for another version of this interface */
#define GT_ERR_BLAS 3  /* the model calls BLAS and the caller gave no table */
#define GT_ERR_MATRIX 4 /* a matrix without an answer: err_node says in which equation, err_index which of its batch */

/* What a model may ask of the caller: single-threaded BLAS with 32-bit integers, Fortran interface. */
typedef struct gt_blas {
    int64_t size; /* sizeof(gt_blas) as the caller knows it */
    void (*sgemm)(const char *ta, const char *tb, const int32_t *m, const int32_t *n, const int32_t *k,
                  const float *alpha, const float *a, const int32_t *lda, const float *b, const int32_t *ldb,
                  const float *beta, float *c, const int32_t *ldc);
    void (*dgemm)(const char *ta, const char *tb, const int32_t *m, const int32_t *n, const int32_t *k,
                  const double *alpha, const double *a, const int32_t *lda, const double *b, const int32_t *ldb,
                  const double *beta, double *c, const int32_t *ldc);
} gt_blas;

/* One call. The pointers of in, out and dims have as many entries as the model's description says. */
typedef struct gt_args {
    int64_t size; /* sizeof(gt_args) as the caller knows it */
    const void *const *in;
    void *const *out;
    void *state;
    void *work;
    const gt_blas *blas;
    void *pool; /* reserved for threads: NULL */
    const int64_t *dims;
    int64_t flags; /* reserved: 0 */
    double loss;   /* written by the call when the model has a loss */
    int64_t err_node;
    int64_t err_index;
} gt_args;

/* A loop of calls over the rows of a data set. Inputs with batched[i] != 0 hold the whole data set in
 * in[i]: call number s sees the rows first + s * batch ... of it or, when rows is given, the rows named
 * by rows[s * batch] ..., gathered into `gather`, which has the bytes of all batched inputs of one call,
 * each rounded up to 64. */
typedef struct gt_loop {
    int64_t size; /* sizeof(gt_loop) as the caller knows it */
    int64_t steps;
    int64_t batch;
    int64_t first;
    const int64_t *rows;
    const uint8_t *batched;
    void *gather;
    double *losses;               /* NULL, or one per step */
    const volatile int32_t *stop; /* NULL, or polled before each step: non-zero ends the loop */
    int64_t done;                 /* written: how many steps were completed */
} gt_loop;

/* One array of the description. A negative extent -1-k stands for dims[k]; then `scale` multiplies it. */
typedef struct gt_array {
    const char *name;
    const char *dtype; /* f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64 b1 */
    int64_t rank;
    const int64_t *shape;
    int64_t scale;  /* factor of the run-time extent in shape, else 1 */
    int64_t bytes;  /* at the bound of its run-time extent */
    int64_t offset; /* state leaves: byte offset in the state block; else 0 */
} gt_array;

typedef struct gt_dim {
    const char *name;
    int64_t bound;
} gt_dim;

/* The description of a model. */
typedef struct gt_model {
    int64_t abi;
    const char *name;
    int64_t state_bytes;
    int64_t work_bytes;
    int64_t needs_blas;
    int64_t n_inputs, n_outputs, n_state, n_dims, n_equations;
    const gt_array *inputs;
    const gt_array *outputs;
    const gt_array *state;
    const gt_dim *dims;
    const char *const *equations;
    int32_t (*init)(void *state);                   /* zero the state block */
    int32_t (*call)(gt_args *args);                 /* one step: GT_OK or an error code */
    int32_t (*run)(gt_args *args, gt_loop *loop);   /* many steps: GT_OK or the failing step's code */
} gt_model;

#if defined(_WIN32)
#define GT_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define GT_EXPORT __attribute__((visibility("default")))
#else
#define GT_EXPORT
#endif

GT_EXPORT const gt_model *gt_model_get(void);

#endif
