/* gt_kernel.h: what the kernels of generated code share besides arithmetic: folds of a row, errors, BLAS.
 *
 * gt_row_sum_<tag>, gt_row_max_<tag> and gt_row_min_<tag> fold n values that lie one behind the other, in one
 * order on every machine: value i goes to lane i % 16, then the lanes are folded in halves. Where a unit has vectors
 * (GT_WIDTH), the lanes of float32 are 16 / GT_LANES of them.
 */
#ifndef GT_KERNEL_H
#define GT_KERNEL_H

#include "gt_abi.h"
#include "gt_scalar.h"
#ifdef GT_WIDTH
#include "gt_vector.h"
#endif

#if defined(__GNUC__)
#define GT_SHARED static __attribute__((unused))
#else
#define GT_SHARED static
#endif

#define GT_ROW(op, tag, type, first)                                                                             \
    GT_SHARED type gt_row_##op##_##tag(const type *x, int64_t n)                                                 \
    {                                                                                                            \
        type lane[16];                                                                                           \
        int64_t i = 0;                                                                                           \
        for (int l = 0; l < 16; ++l)                                                                             \
            lane[l] = (first);                                                                                   \
        for (; i + 16 <= n; i += 16)                                                                             \
            for (int l = 0; l < 16; ++l)                                                                         \
                lane[l] = gt_##op##_##tag(lane[l], x[i + l]);                                                    \
        for (int l = 0; i + l < n; ++l)                                                                          \
            lane[l] = gt_##op##_##tag(lane[l], x[i + l]);                                                        \
        for (int half = 8; half > 0; half /= 2)                                                                  \
            for (int l = 0; l < half; ++l)                                                                       \
                lane[l] = gt_##op##_##tag(lane[l], lane[l + half]);                                              \
        return lane[0];                                                                                          \
    }

#define gt_sum_f32 gt_add_f32
#define gt_sum_f64 gt_add_f64
#ifdef GT_WIDTH
#define GT_ROW_VECTORS(op, first)                                                                                \
    GT_SHARED float gt_row_##op##_f32(const float *x, int64_t n)                                                 \
    {                                                                                                            \
        gt_v_f32 lane[16 / GT_LANES];                                                                            \
        int64_t i = 0;                                                                                           \
        for (int l = 0; l < 16 / GT_LANES; ++l)                                                                  \
            lane[l] = gt_splat_f32(first);                                                                       \
        for (; i + 16 <= n; i += 16)                                                                             \
            for (int l = 0; l < 16 / GT_LANES; ++l)                                                              \
                lane[l] = gt_##op##_v_f32(lane[l], gt_load_f32(x + i + GT_LANES * l));                           \
        for (int l = 0; i < n; ++l, i += GT_LANES) {                                                             \
            gt_v_f32 more = gt_##op##_v_f32(lane[l], gt_load_upto_f32(x + i, n - i));                            \
            lane[l] = n - i < GT_LANES ? gt_where_v_f32(gt_first_lanes(n - i), more, lane[l]) : more;            \
        }                                                                                                        \
        for (int half = 8 / GT_LANES; half > 0; half /= 2)                                                       \
            for (int l = 0; l < half; ++l)                                                                       \
                lane[l] = gt_##op##_v_f32(lane[l], lane[l + half]);                                              \
        return gt_fold_##op##_f32(lane[0]);                                                                      \
    }
#define gt_sum_v_f32 gt_add_v_f32
GT_ROW_VECTORS(sum, 0)
GT_ROW_VECTORS(max, -INFINITY)
GT_ROW_VECTORS(min, INFINITY)
#else
GT_ROW(sum, f32, float, 0)
GT_ROW(max, f32, float, -INFINITY)
GT_ROW(min, f32, float, INFINITY)
#endif
GT_ROW(sum, f64, double, 0)
GT_ROW(max, f64, double, -INFINITY)
GT_ROW(min, f64, double, INFINITY)
#undef gt_sum_f32
#undef gt_sum_f64

/* Leave the call, telling the equation and the index that is out of its range. */
GT_INLINE int32_t gt_bad_index(gt_args *args, int64_t node, int64_t index)
{
    args->err_node = node;
    args->err_index = index;
    return GT_ERR_INDEX;
}

/* Leave the call, telling the equation and which matrix of its batch has no answer. */
GT_INLINE int32_t gt_bad_matrix(gt_args *args, int64_t node, int64_t matrix)
{
    args->err_node = node;
    args->err_index = matrix;
    return GT_ERR_MATRIX;
}

/* c = a @ b + beta * c for matrices in rows, by BLAS, which thinks in columns and so takes b first. `ab` says
 * for a and b whether they are plain (N) or transposed (T). */
#define GT_BLAS(tag, type, function)                                                                             \
    GT_SHARED void gt_blas_##tag(const gt_blas *blas, const char *ab, int64_t m, int64_t n, int64_t k,           \
                                 const type *a, int64_t lda, const type *b, int64_t ldb, type beta, type *c,     \
                                 int64_t ldc)                                                                    \
    {                                                                                                            \
        const int32_t m32 = (int32_t)m, n32 = (int32_t)n, k32 = (int32_t)k;                                      \
        const int32_t a32 = (int32_t)(lda > 1 ? lda : 1), b32 = (int32_t)(ldb > 1 ? ldb : 1);                    \
        const int32_t c32 = (int32_t)(ldc > 1 ? ldc : 1);                                                        \
        const type one = 1;                                                                                      \
        blas->function(ab + 1, ab, &n32, &m32, &k32, &one, b, &b32, a, &a32, &beta, c, &c32);                    \
    }

GT_BLAS(f32, float, sgemm)
GT_BLAS(f64, double, dgemm)

#endif
