/* gt_lines.h: functions that walk along whole lines of arrays: running folds, recurrences, sorting, searching.
 *
 * A line is a pointer to its first element and the step to the next one, in elements; the lengths follow, then the
 * memory to work in. The result does not overlap the operands. With n = 0 nothing is touched.
 *
 *     gt_cumsum_f32(x, sx, y, sy, n)                 y[i] = x[0] + ... + x[i]; so too cumprod, cummax, cummin
 *     gt_cumargmax_f32(x, sx, y, sy, n)              y[i] = the place of the last of the largest of x[0] ... x[i]
 *     gt_recurrence_f32(a, sa, b, sb, y, sy, n)      y[0] = b[0], y[i] = a[i] * y[i - 1] + b[i]
 *     gt_argsort_f32(x, sx, y, sy, n, keys, places)  y[i] = the place of the i-th smallest element, equals in order
 *     gt_search_left_f32(s, ss, v, sv, y, sy, n, m)  y[j] = how many of the sorted s[0] ... s[n - 1] are below v[j]
 *     gt_search_right_f32(s, ss, v, sv, y, sy, n, m) y[j] = how many of them are not above v[j]
 *
 * and the same for other tags. Running sums, products and recurrences of float32 are computed in double and rounded
 * once per element. NaN is the largest number of all to the last three, and stays once met in the others.
 */
#ifndef GT_LINES_H
#define GT_LINES_H

#include "gt_kernel.h"

#define GT_RUNNING(op, fold, tag, type, wide, wide_type)                                                         \
    GT_SHARED void gt_##op##_##tag(const type *x, int64_t sx, type *y, int64_t sy, int64_t n)                    \
    {                                                                                                            \
        wide_type so_far = 0;                                                                                    \
        for (int64_t i = 0; i < n; ++i) {                                                                        \
            const wide_type next = (wide_type)x[sx * i];                                                         \
            so_far = i ? gt_##fold##_##wide(so_far, next) : next;                                                \
            y[sy * i] = (type)so_far;                                                                            \
        }                                                                                                        \
    }

GT_RUNNING(cumsum, add, f32, float, f64, double)
GT_RUNNING(cumsum, add, f64, double, f64, double)
GT_RUNNING(cumsum, add, i64, int64_t, i64, int64_t)
GT_RUNNING(cumsum, add, u64, uint64_t, u64, uint64_t)
GT_RUNNING(cumprod, mul, f32, float, f64, double)
GT_RUNNING(cumprod, mul, f64, double, f64, double)
GT_RUNNING(cumprod, mul, i64, int64_t, i64, int64_t)
GT_RUNNING(cumprod, mul, u64, uint64_t, u64, uint64_t)

#define GT_RECURRENCE(tag, type)                                                                                 \
    GT_SHARED void gt_recurrence_##tag(const type *a, int64_t sa, const type *b, int64_t sb, type *y,            \
                                       int64_t sy, int64_t n)                                                    \
    {                                                                                                            \
        double last = 0;                                                                                         \
        for (int64_t i = 0; i < n; ++i) {                                                                        \
            last = i ? (double)a[sa * i] * last + (double)b[sb * i] : (double)b[0];                              \
            y[sy * i] = (type)last;                                                                              \
        }                                                                                                        \
    }

GT_RECURRENCE(f32, float)
GT_RECURRENCE(f64, double)

/* Whoever is not beaten by the best so far takes its place, so it is the last of equals. */
#define GT_RUNNING_PLACE(op, best, tag, type)                                                                    \
    GT_SHARED void gt_##op##_##tag(const type *x, int64_t sx, int64_t *y, int64_t sy, int64_t n)                 \
    {                                                                                                            \
        int64_t place = 0;                                                                                       \
        for (int64_t i = 0; i < n; ++i) {                                                                        \
            if (!gt_##best##_##tag(x[sx * place], x[sx * i]))                                                    \
                place = i;                                                                                       \
            y[sy * i] = place;                                                                                   \
        }                                                                                                        \
    }

#define GT_ORDERED(tag, type)                                                                                    \
    GT_RUNNING(cummax, max, tag, type, tag, type)                                                                \
    GT_RUNNING(cummin, min, tag, type, tag, type)                                                                \
    GT_RUNNING_PLACE(cumargmax, argmax, tag, type)                                                               \
    GT_RUNNING_PLACE(cumargmin, argmin, tag, type)                                                               \
    GT_SORT(tag, type)                                                                                           \
    GT_SEARCH(left, tag, type, gt_before_##tag(key, value))                                                      \
    GT_SEARCH(right, tag, type, !gt_before_##tag(value, key))

/* Runs of this many elements are sorted by insertion. */
#define GT_RUN 8

/* A merge sort from below: sorted runs double in length from pass to pass, from one half of the memory to the other.
 * Two runs that are in order already are copied. */
#define GT_SORT(tag, type)                                                                                       \
    GT_SHARED void gt_merge_##tag(const type *keys, const int64_t *places, type *to, int64_t *to_places,         \
                                  int64_t first, int64_t middle, int64_t end)                                    \
    {                                                                                                            \
        int64_t i = first, j = middle, k = first;                                                                \
        if (middle < end && gt_before_##tag(keys[middle], keys[middle - 1]))                                     \
            while (i < middle && j < end) {                                                                      \
                const int late = gt_before_##tag(keys[j], keys[i]);                                              \
                to[k] = late ? keys[j] : keys[i];                                                                \
                to_places[k++] = late ? places[j] : places[i];                                                   \
                i += !late;                                                                                      \
                j += late;                                                                                       \
            }                                                                                                    \
        for (; i < middle; ++i, ++k) {                                                                           \
            to[k] = keys[i];                                                                                     \
            to_places[k] = places[i];                                                                            \
        }                                                                                                        \
        for (; j < end; ++j, ++k) {                                                                              \
            to[k] = keys[j];                                                                                     \
            to_places[k] = places[j];                                                                            \
        }                                                                                                        \
    }                                                                                                            \
    GT_SHARED void gt_argsort_##tag(const type *x, int64_t sx, int64_t *y, int64_t sy, int64_t n, type *keys,    \
                                    int64_t *places)                                                             \
    {                                                                                                            \
        type *to = keys + n;                                                                                     \
        int64_t *to_places = places + n;                                                                         \
        for (int64_t i = 0; i < n; ++i) {                                                                        \
            const type key = x[sx * i];                                                                          \
            int64_t j = i;                                                                                       \
            for (; j % GT_RUN > 0 && gt_before_##tag(key, keys[j - 1]); --j) {                                   \
                keys[j] = keys[j - 1];                                                                           \
                places[j] = places[j - 1];                                                                       \
            }                                                                                                    \
            keys[j] = key;                                                                                       \
            places[j] = i;                                                                                       \
        }                                                                                                        \
        for (int64_t run = GT_RUN; run < n; run *= 2) {                                                          \
            for (int64_t first = 0; first < n; first += 2 * run) {                                               \
                const int64_t middle = first + run < n ? first + run : n;                                        \
                gt_merge_##tag(keys, places, to, to_places, first, middle, middle + run < n ? middle + run : n); \
            }                                                                                                    \
            type *const merged = to;                                                                             \
            int64_t *const merged_places = to_places;                                                            \
            to = keys;                                                                                           \
            to_places = places;                                                                                  \
            keys = merged;                                                                                       \
            places = merged_places;                                                                              \
        }                                                                                                        \
        for (int64_t i = 0; i < n; ++i)                                                                          \
            y[sy * i] = places[i];                                                                               \
    }

/* The number of elements at the start of the line that `passed`: a test of `key` against `value`. */
#define GT_SEARCH(side, tag, type, passed)                                                                       \
    GT_SHARED void gt_search_##side##_##tag(const type *s, int64_t ss, const type *v, int64_t sv, int64_t *y,    \
                                            int64_t sy, int64_t n, int64_t m)                                    \
    {                                                                                                            \
        for (int64_t j = 0; j < m; ++j) {                                                                        \
            const type value = v[sv * j];                                                                        \
            int64_t low = 0, high = n;                                                                           \
            while (low < high) {                                                                                 \
                const int64_t middle = low + (high - low) / 2;                                                   \
                const type key = s[ss * middle];                                                                 \
                if (passed)                                                                                      \
                    low = middle + 1;                                                                            \
                else                                                                                             \
                    high = middle;                                                                               \
            }                                                                                                    \
            y[sy * j] = low;                                                                                     \
        }                                                                                                        \
    }

GT_INLINE int gt_before_f32(float a, float b) { return (a < b) | ((a == a) & (b != b)); }
GT_INLINE int gt_before_f64(double a, double b) { return (a < b) | ((a == a) & (b != b)); }
GT_INLINE int gt_before_i8(int8_t a, int8_t b) { return a < b; }
GT_INLINE int gt_before_i16(int16_t a, int16_t b) { return a < b; }
GT_INLINE int gt_before_i32(int32_t a, int32_t b) { return a < b; }
GT_INLINE int gt_before_i64(int64_t a, int64_t b) { return a < b; }
GT_INLINE int gt_before_u8(uint8_t a, uint8_t b) { return a < b; }
GT_INLINE int gt_before_u16(uint16_t a, uint16_t b) { return a < b; }
GT_INLINE int gt_before_u32(uint32_t a, uint32_t b) { return a < b; }
GT_INLINE int gt_before_u64(uint64_t a, uint64_t b) { return a < b; }

GT_ORDERED(f32, float)
GT_ORDERED(f64, double)
GT_ORDERED(i8, int8_t)
GT_ORDERED(i16, int16_t)
GT_ORDERED(i32, int32_t)
GT_ORDERED(i64, int64_t)
GT_ORDERED(u8, uint8_t)
GT_ORDERED(u16, uint16_t)
GT_ORDERED(u32, uint32_t)
GT_ORDERED(u64, uint64_t)

#endif
