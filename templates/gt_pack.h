/* gt_pack.h: copies of a matrix into panels, as the tiles of products walk through them.
 *
 * A panel holds k rows, `width` elements apart. Of each row the first `cols` elements are copied, and what follows up
 * to the end of their last vector is written as 0, but never beyond the row: another panel may lie there. So a tile
 * may load whole vectors, and what it reads beyond the last column spoils nothing that counts.
 *
 *     gt_pack_rows_f32(k, cols, b, bk, panel, width)      panel[width * p + j] = b[bk * p + j]
 *     gt_pack_turned_f32(k, cols, b, bn, panel, width)    panel[width * p + j] = b[bn * j + p]
 *     gt_pack_any_f32(k, cols, b, bk, bn, panel, width)   panel[width * p + j] = b[bk * p + bn * j]
 *     gt_turn_f32(k, cols, b, bn, c, width)               c[width * p + j] = b[bn * j + p], and nothing else
 *
 * and the same for _f64. In the second and the third the width is a multiple of the lanes of a vector.
 */
#ifndef GT_PACK_H
#define GT_PACK_H

#include "gt_kernel.h"
#include "gt_vector.h"

/* Squares of four are turned inside of the quarters of a vector, two side by side where there are 32 bytes: shuffles
 * inside of quarters are the cheapest there are, and more of them in a wider vector are not faster. GT_LOW and GT_HIGH
 * mix the lower and the upper halves of the quarters of two vectors. */
typedef float gt_quarter __attribute__((vector_size(16)));
typedef float gt_any_quarter __attribute__((vector_size(16), aligned(4), may_alias));
#if defined(__clang__)
#define GT_LOW_4(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define GT_HIGH_4(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#else
typedef int32_t gt_quarter_i32 __attribute__((vector_size(16)));
#define GT_LOW_4(a, b) __builtin_shuffle(a, b, (gt_quarter_i32){0, 4, 1, 5})
#define GT_HIGH_4(a, b) __builtin_shuffle(a, b, (gt_quarter_i32){2, 6, 3, 7})
#endif
#define GT_ROWS_4(p, bn) (*(const gt_any_quarter *)(p))

#if GT_WIDTH >= 32 && GT_HAS_BUILTIN(__builtin_shufflevector)
#define GT_TURNED_8
typedef float gt_quarters __attribute__((vector_size(32)));
typedef float gt_any_quarters __attribute__((vector_size(32), aligned(4), may_alias));
#define GT_LOW_8(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define GT_HIGH_8(a, b) __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#if GT_X86(vinsertf128_ps256) && GT_X86(ps256_ps)
#define GT_ROWS_8(p, bn)                                                                                         \
    (gt_quarters) __builtin_ia32_vinsertf128_ps256(__builtin_ia32_ps256_ps(GT_ROWS_4(p, bn)),                    \
                                                   GT_ROWS_4((p) + 4 * (bn), bn), 1)
#else
#define GT_ROWS_8(p, bn)                                                                                         \
    __builtin_shufflevector(GT_ROWS_4(p, bn), GT_ROWS_4((p) + 4 * (bn), bn), 0, 1, 2, 3, 4, 5, 6, 7)
#endif
#endif

/* Four rows of c, n elements each, from four elements of n rows of b. */
#define GT_TURN(n, vector)                                                                                       \
    GT_INLINE void gt_turn_##n(const float *b, int64_t bn, float *c, int64_t width)                              \
    {                                                                                                            \
        const gt_##vector b0 = GT_ROWS_##n(b, bn), b1 = GT_ROWS_##n(b + bn, bn),                                 \
                          b2 = GT_ROWS_##n(b + 2 * bn, bn), b3 = GT_ROWS_##n(b + 3 * bn, bn);                    \
        const gt_##vector low02 = GT_LOW_##n(b0, b2), high02 = GT_HIGH_##n(b0, b2),                              \
                          low13 = GT_LOW_##n(b1, b3), high13 = GT_HIGH_##n(b1, b3);                              \
        *(gt_any_##vector *)c = GT_LOW_##n(low02, low13);                                                        \
        *(gt_any_##vector *)(c + width) = GT_HIGH_##n(low02, low13);                                             \
        *(gt_any_##vector *)(c + 2 * width) = GT_LOW_##n(high02, high13);                                        \
        *(gt_any_##vector *)(c + 3 * width) = GT_HIGH_##n(high02, high13);                                       \
    }

GT_TURN(4, quarter)
#if defined(GT_TURNED_8)
GT_TURN(8, quarters)
#endif

/* In blocks of 64 rows of c, which stay in the first-level cache until they are complete. */
GT_SHARED void gt_turn_f32(int64_t k, int64_t cols, const float *b, int64_t bn, float *c, int64_t width)
{
    const int64_t rows = k - k % 4, fours = cols - cols % 4;
    for (int64_t p0 = 0; p0 < rows; p0 += 64) {
        const int64_t end = p0 + 64 < rows ? p0 + 64 : rows;
#if defined(GT_TURNED_8)
        const int64_t eights = cols - cols % 8;
        for (int64_t j = 0; j < eights; j += 8)
            for (int64_t p = p0; p < end; p += 4)
                gt_turn_8(b + bn * j + p, bn, c + width * p + j, width);
#else
        const int64_t eights = 0;
#endif
        for (int64_t j = eights; j < fours; j += 4)
            for (int64_t p = p0; p < end; p += 4)
                gt_turn_4(b + bn * j + p, bn, c + width * p + j, width);
    }
    for (int64_t p = 0; p < k; ++p)
        for (int64_t j = p < rows ? fours : 0; j < cols; ++j)
            c[width * p + j] = b[bn * j + p];
}

GT_SHARED void gt_turn_f64(int64_t k, int64_t cols, const double *b, int64_t bn, double *c, int64_t width)
{
    for (int64_t p = 0; p < k; ++p)
        for (int64_t j = 0; j < cols; ++j)
            c[width * p + j] = b[bn * j + p];
}

/* Whole vectors of each row; its end in part. */
#define GT_PACK_ROWS(tag, type, lanes)                                                                           \
    GT_SHARED void gt_pack_rows_##tag(int64_t k, int64_t cols, const type *b, int64_t bk, type *panel,           \
                                      int64_t width)                                                             \
    {                                                                                                            \
        for (int64_t p = 0; p < k; ++p) {                                                                        \
            const type *from = b + bk * p;                                                                       \
            type *to = panel + width * p;                                                                        \
            int64_t j = 0;                                                                                       \
            for (; j + lanes <= cols; j += lanes)                                                                \
                gt_store_##tag(to + j, gt_load_##tag(from + j));                                                 \
            if (j < cols && j + lanes <= width)                                                                  \
                gt_store_##tag(to + j, gt_load_part_##tag(from + j, cols - j));                                  \
            else if (j < cols)                                                                                   \
                gt_store_part_##tag(to + j, gt_load_part_##tag(from + j, cols - j), width - j);                  \
        }                                                                                                        \
    }

/* `end`: zeros behind the columns. */
#define GT_PACK_OTHERS(tag, type, lanes)                                                                         \
    GT_SHARED void gt_pack_end_##tag(int64_t k, int64_t cols, type *panel, int64_t width)                        \
    {                                                                                                            \
        const int64_t end = (cols + lanes - 1) / lanes * lanes;                                                  \
        for (int64_t p = 0; cols < end && p < k; ++p)                                                            \
            for (int64_t j = cols; j < end; ++j)                                                                 \
                panel[width * p + j] = 0;                                                                        \
    }                                                                                                            \
                                                                                                                 \
    GT_SHARED void gt_pack_turned_##tag(int64_t k, int64_t cols, const type *b, int64_t bn, type *panel,         \
                                        int64_t width)                                                           \
    {                                                                                                            \
        gt_turn_##tag(k, cols, b, bn, panel, width);                                                             \
        gt_pack_end_##tag(k, cols, panel, width);                                                                \
    }                                                                                                            \
                                                                                                                 \
    GT_SHARED void gt_pack_any_##tag(int64_t k, int64_t cols, const type *b, int64_t bk, int64_t bn,             \
                                     type *panel, int64_t width)                                                 \
    {                                                                                                            \
        for (int64_t p = 0; p < k; ++p)                                                                          \
            for (int64_t j = 0; j < cols; ++j)                                                                   \
                panel[width * p + j] = b[bk * p + bn * j];                                                       \
        gt_pack_end_##tag(k, cols, panel, width);                                                                \
    }

GT_PACK_ROWS(f32, float, GT_LANES)
GT_PACK_ROWS(f64, double, (GT_LANES / 2))
GT_PACK_OTHERS(f32, float, GT_LANES)
GT_PACK_OTHERS(f64, double, (GT_LANES / 2))

#endif
