/* gt_accelerate.c: Apple's Accelerate behind the table through which models call BLAS (gt_abi.h).
 *
 * Compiled into a small library that is linked against Accelerate and loaded once per process. The CBLAS interface
 * is the same in old and new SDKs, whatever they name their Fortran symbols. Where the system can run a product on
 * one thread (macOS 15) it is told to, since results change with the number of threads.
 */
#define ACCELERATE_NEW_LAPACK 1
#include <Accelerate/Accelerate.h>

#include "gt_abi.h"

static void one_thread(void) {
#if defined(__APPLE__) && defined(__MAC_OS_X_VERSION_MAX_ALLOWED)
#if __MAC_OS_X_VERSION_MAX_ALLOWED >= 150000
    if (__builtin_available(macOS 15.0, *)) BLASSetThreading(BLAS_THREADING_SINGLE_THREADED);
#endif
#endif
}

static enum CBLAS_TRANSPOSE transpose(const char *flag) { return *flag == 'N' ? CblasNoTrans : CblasTrans; }

static void sgemm(const char *ta, const char *tb, const int32_t *m, const int32_t *n, const int32_t *k,
                  const float *alpha, const float *a, const int32_t *lda, const float *b, const int32_t *ldb,
                  const float *beta, float *c, const int32_t *ldc) {
    one_thread();
    cblas_sgemm(CblasColMajor, transpose(ta), transpose(tb), *m, *n, *k, *alpha, a, *lda, b, *ldb, *beta, c, *ldc);
}

static void dgemm(const char *ta, const char *tb, const int32_t *m, const int32_t *n, const int32_t *k,
                  const double *alpha, const double *a, const int32_t *lda, const double *b, const int32_t *ldb,
                  const double *beta, double *c, const int32_t *ldc) {
    one_thread();
    cblas_dgemm(CblasColMajor, transpose(ta), transpose(tb), *m, *n, *k, *alpha, a, *lda, b, *ldb, *beta, c, *ldc);
}

static const gt_blas table = {sizeof(gt_blas), sgemm, dgemm};

GT_EXPORT const gt_blas *gt_blas_get(void);
const gt_blas *gt_blas_get(void) { return &table; }
