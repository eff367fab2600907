/* gt_matrix.h: what the routines over whole matrices share. For each GT_REAL, with GT_T(name) as name_<tag>.
 *
 * A matrix lies row after row. A routine runs over `batch` matrices and allocates nothing; it returns -1, or the
 * number of the first matrix that has no answer. A matrix with a NaN or an infinity in it gives NaN. Loops run
 * along rows, so that compilers make vectors of them; each element is one chain, whatever the width of the vectors.
 */
#ifdef GT_REAL

/* Whether all n numbers are finite. */
GT_SHARED int GT_T(gt_all_finite)(int64_t n, const GT_REAL *x)
{
    int finite = 1;
    for (int64_t i = 0; i < n; ++i)
        finite &= x[i] - x[i] == 0;
    return finite;
}

GT_SHARED void GT_T(gt_fill)(int64_t n, GT_REAL value, GT_REAL *x)
{
    for (int64_t i = 0; i < n; ++i)
        x[i] = value;
}

GT_SHARED void GT_T(gt_copy)(int64_t n, const GT_REAL *x, GT_REAL *y)
{
    for (int64_t i = 0; i < n; ++i)
        y[i] = x[i];
}

/* An n by n triangle of NaN: the factor of a matrix that has none. */
GT_SHARED void GT_T(gt_nan_triangle)(int64_t n, int lower, GT_REAL *x)
{
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j)
            x[i * n + j] = (lower ? j <= i : j >= i) ? NAN : 0;
}

/* The largest magnitude of n finite numbers. */
GT_SHARED GT_REAL GT_T(gt_largest)(int64_t n, const GT_REAL *x)
{
    GT_REAL most = 0;
    for (int64_t i = 0; i < n; ++i)
        most = GT_T(gt_magnitude)(x[i]) > most ? GT_T(gt_magnitude)(x[i]) : most;
    return most;
}

/* The sum of products, in eight chains. */
GT_SHARED GT_REAL GT_T(gt_inner)(int64_t n, const GT_REAL *x, const GT_REAL *y)
{
    GT_REAL lane[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int l = 0; l < 8; ++l)
            lane[l] += x[i + l] * y[i + l];
    for (int l = 0; i + l < n; ++l)
        lane[l] += x[i + l] * y[i + l];
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* y += s x */
GT_SHARED void GT_T(gt_add_row)(int64_t n, GT_REAL s, const GT_REAL *restrict x, GT_REAL *restrict y)
{
    for (int64_t i = 0; i < n; ++i)
        y[i] += s * x[i];
}

GT_SHARED void GT_T(gt_swap_rows)(int64_t n, GT_REAL *restrict x, GT_REAL *restrict y)
{
    for (int64_t i = 0; i < n; ++i) {
        const GT_REAL kept = x[i];
        x[i] = y[i];
        y[i] = kept;
    }
}

/* x, y = c x - s y, s x + c y */
GT_SHARED void GT_T(gt_turn_rows)(int64_t n, GT_REAL c, GT_REAL s, GT_REAL *restrict x, GT_REAL *restrict y)
{
    for (int64_t i = 0; i < n; ++i) {
        const GT_REAL kept = x[i];
        x[i] = c * kept - s * y[i];
        y[i] = s * kept + c * y[i];
    }
}

/* A square matrix, transposed where it lies. */
GT_SHARED void GT_T(gt_transpose)(int64_t n, GT_REAL *a)
{
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < i; ++j) {
            const GT_REAL kept = a[i * n + j];
            a[i * n + j] = a[j * n + i];
            a[j * n + i] = kept;
        }
}

/* 1, or -1 where the first element of at least 0.6 of the largest magnitude is negative: the sign that makes a
 * singular vector or eigenvector the one of its two that is meant. */
GT_SHARED GT_REAL GT_T(gt_orientation)(int64_t n, int64_t stride, const GT_REAL *x)
{
    GT_REAL most = 0;
    for (int64_t i = 0; i < n; ++i)
        most = GT_T(gt_magnitude)(x[i * stride]) > most ? GT_T(gt_magnitude)(x[i * stride]) : most;
    for (int64_t i = 0; i < n; ++i)
        if (GT_T(gt_magnitude)(x[i * stride]) >= (GT_REAL)0.6 * most)
            return x[i * stride] < 0 ? -1 : 1;
    return 1;
}

#elif !defined(GT_MATRIX_H)
#define GT_MATRIX_H

#include <float.h>

#include "gt_kernel.h"

#define gt_magnitude_f32 fabsf
#define gt_magnitude_f64 fabs
#define gt_root_f32 sqrtf
#define gt_root_f64 sqrt
#define gt_logarithm_f32 logf
#define gt_logarithm_f64 log
#define gt_hypotenuse_f32 hypotf
#define gt_hypotenuse_f64 hypot
#define gt_grain_f32 FLT_EPSILON
#define gt_grain_f64 DBL_EPSILON

#define GT_REAL float
#define GT_T(name) name##_f32
#include "gt_matrix.h"
#undef GT_REAL
#undef GT_T
#define GT_REAL double
#define GT_T(name) name##_f64
#include "gt_matrix.h"
#undef GT_REAL
#undef GT_T

#endif
