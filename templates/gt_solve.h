/* gt_solve.h: elimination: Cholesky and LU factors, linear systems, determinants (see gt_matrix.h).
 *
 * Work: solve n n + n elements, det and slogdet n n + n, cofactor 2 n n + 2 n; the others none. Row exchanges are
 * kept as numbers of rows in that work. Partial pivoting takes the largest magnitude, the first of several.
 */
#ifdef GT_REAL

/* a = l l' for symmetric a, of which the lower triangle is read. Fails unless all pivots are positive. */
GT_SHARED int64_t GT_T(gt_cholesky)(int64_t batch, int64_t n, const GT_REAL *a, GT_REAL *l)
{
    for (int64_t at = 0; at < batch; ++at, a += n * n, l += n * n) {
        if (!GT_T(gt_all_finite)(n * n, a)) {
            GT_T(gt_nan_triangle)(n, 1, l);
            continue;
        }
        /* The factor is made as its transpose u, a = u' u, whose rows are what one step after another needs. */
        for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < n; ++j)
                l[i * n + j] = j < i ? 0 : a[j * n + i];
        for (int64_t k = 0; k < n; ++k) {
            GT_REAL *row = l + k * n;
            if (!(row[k] > 0))
                return at;
            const GT_REAL pivot = GT_T(gt_root)(row[k]);
            for (int64_t j = k; j < n; ++j)
                row[j] /= pivot;
            row[k] = pivot;
            for (int64_t i = k + 1; i < n; ++i)
                GT_T(gt_add_row)(n - i, -row[i], row + i, l + i * n + i);
        }
        GT_T(gt_transpose)(n, l);
    }
    return -1;
}

/* p a = l u in the place of a; gives the sign of p, or 0 where a pivot is 0 and the factors end. */
GT_SHARED GT_REAL GT_T(gt_lu)(int64_t n, GT_REAL *a, GT_REAL *exchanged)
{
    GT_REAL sign = 1;
    for (int64_t k = 0; k < n; ++k) {
        int64_t best = k;
        for (int64_t i = k + 1; i < n; ++i)
            if (GT_T(gt_magnitude)(a[i * n + k]) > GT_T(gt_magnitude)(a[best * n + k]))
                best = i;
        exchanged[k] = (GT_REAL)best;
        if (best != k) {
            GT_T(gt_swap_rows)(n, a + k * n, a + best * n);
            sign = -sign;
        }
        const GT_REAL pivot = a[k * n + k];
        if (pivot == 0)
            return 0;
        for (int64_t i = k + 1; i < n; ++i) {
            const GT_REAL factor = a[i * n + k] /= pivot;
            GT_T(gt_add_row)(n - k - 1, -factor, a + k * n + k + 1, a + i * n + k + 1);
        }
    }
    return sign;
}

/* Solve a x = b in the place of b, n rows of `cols`, for a triangle of a; a `unit` diagonal is not read. */
GT_SHARED void GT_T(gt_substitute)(int64_t n, int64_t cols, int lower, int unit, const GT_REAL *a, GT_REAL *x)
{
    for (int64_t step = 0; step < n; ++step) {
        const int64_t i = lower ? step : n - 1 - step;
        const int64_t first = lower ? 0 : i + 1, end = lower ? i : n;
        GT_REAL *row = x + i * cols;
        for (int64_t j = first; j < end; ++j)
            GT_T(gt_add_row)(cols, -a[i * n + j], x + j * cols, row);
        if (!unit)
            for (int64_t c = 0; c < cols; ++c)
                row[c] /= a[i * n + i];
    }
}

/* Columns of x become NaN where b has something that is not finite. */
GT_SHARED void GT_T(gt_mark_columns)(int64_t n, int64_t cols, const GT_REAL *b, GT_REAL *x)
{
    for (int64_t i = 0; i < n * cols; ++i)
        if (!(b[i] - b[i] == 0))
            for (int64_t row = 0; row < n; ++row)
                x[row * cols + i % cols] = NAN;
}

/* a x = b. Fails where a is singular. */
GT_SHARED int64_t GT_T(gt_solve)(int64_t batch, int64_t n, int64_t cols, const GT_REAL *a, const GT_REAL *b,
                                 GT_REAL *x, GT_REAL *work)
{
    GT_REAL *exchanged = work + n * n;
    for (int64_t at = 0; at < batch; ++at, a += n * n, b += n * cols, x += n * cols) {
        if (!GT_T(gt_all_finite)(n * n, a)) {
            GT_T(gt_fill)(n * cols, NAN, x);
            continue;
        }
        GT_T(gt_copy)(n * n, a, work);
        if (GT_T(gt_lu)(n, work, exchanged) == 0)
            return at;
        GT_T(gt_copy)(n * cols, b, x);
        for (int64_t k = 0; k < n; ++k)
            if ((int64_t)exchanged[k] != k)
                GT_T(gt_swap_rows)(cols, x + k * cols, x + (int64_t)exchanged[k] * cols);
        GT_T(gt_substitute)(n, cols, 1, 1, work, x);
        GT_T(gt_substitute)(n, cols, 0, 0, work, x);
        if (!GT_T(gt_all_finite)(n * cols, b))
            GT_T(gt_mark_columns)(n, cols, b, x);
    }
    return -1;
}

/* a x = b for a triangle of a. Fails where there is a 0 on the diagonal that is read. */
GT_SHARED int64_t GT_T(gt_triangular_solve)(int64_t batch, int64_t n, int64_t cols, int64_t lower, int64_t unit,
                                            const GT_REAL *a, const GT_REAL *b, GT_REAL *x)
{
    for (int64_t at = 0; at < batch; ++at, a += n * n, b += n * cols, x += n * cols) {
        int finite = 1;
        for (int64_t i = 0; i < n; ++i) {
            const int64_t first = lower ? 0 : i + (unit != 0), end = lower ? i + (unit == 0) : n;
            finite &= GT_T(gt_all_finite)(end - first, a + i * n + first);
        }
        if (!finite) {
            GT_T(gt_fill)(n * cols, NAN, x);
            continue;
        }
        for (int64_t i = 0; i < n; ++i)
            if (!unit && a[i * n + i] == 0)
                return at;
        GT_T(gt_copy)(n * cols, b, x);
        GT_T(gt_substitute)(n, cols, lower != 0, unit != 0, a, x);
        if (!GT_T(gt_all_finite)(n * cols, b))
            GT_T(gt_mark_columns)(n, cols, b, x);
    }
    return -1;
}

/* The determinant. */
GT_SHARED int64_t GT_T(gt_det)(int64_t batch, int64_t n, const GT_REAL *a, GT_REAL *det, GT_REAL *work)
{
    for (int64_t at = 0; at < batch; ++at, a += n * n, ++det) {
        if (!GT_T(gt_all_finite)(n * n, a)) {
            *det = NAN;
            continue;
        }
        GT_T(gt_copy)(n * n, a, work);
        GT_REAL product = GT_T(gt_lu)(n, work, work + n * n);
        for (int64_t k = 0; k < n && product != 0; ++k)
            product *= work[k * n + k];
        *det = product;
    }
    return -1;
}

/* The sign of the determinant and the logarithm of its magnitude, side by side. */
GT_SHARED int64_t GT_T(gt_slogdet)(int64_t batch, int64_t n, const GT_REAL *a, GT_REAL *result, GT_REAL *work)
{
    for (int64_t at = 0; at < batch; ++at, a += n * n, result += 2) {
        if (!GT_T(gt_all_finite)(n * n, a)) {
            result[0] = result[1] = NAN;
            continue;
        }
        GT_T(gt_copy)(n * n, a, work);
        GT_REAL sign = GT_T(gt_lu)(n, work, work + n * n), sum = sign == 0 ? -INFINITY : 0;
        for (int64_t k = 0; k < n && sign != 0; ++k)
            sum += GT_T(gt_logarithm)(GT_T(gt_magnitude)(work[k * n + k]));
        for (int64_t k = 0; k < n && sign != 0; ++k)
            sign = work[k * n + k] < 0 ? -sign : sign;
        result[0] = sign;
        result[1] = sum;
    }
    return -1;
}

/* p a q = l u with complete pivoting; gives the sign of p q. A pivot of 0 ends it: what is left is 0. */
GT_SHARED GT_REAL GT_T(gt_lu_complete)(int64_t n, GT_REAL *a, GT_REAL *rows, GT_REAL *cols)
{
    GT_REAL sign = 1;
    for (int64_t k = 0; k < n; ++k) {
        int64_t row = k, col = k;
        for (int64_t i = k; i < n; ++i)
            for (int64_t j = k; j < n; ++j)
                if (GT_T(gt_magnitude)(a[i * n + j]) > GT_T(gt_magnitude)(a[row * n + col])) {
                    row = i;
                    col = j;
                }
        rows[k] = (GT_REAL)row;
        cols[k] = (GT_REAL)col;
        if (row != k)
            GT_T(gt_swap_rows)(n, a + k * n, a + row * n);
        for (int64_t i = 0; i < n && col != k; ++i)
            GT_T(gt_swap_rows)(1, a + i * n + k, a + i * n + col);
        sign = (row != k) != (col != k) ? -sign : sign;
        const GT_REAL pivot = a[k * n + k];
        for (int64_t i = k + 1; i < n && pivot != 0; ++i) {
            const GT_REAL factor = a[i * n + k] /= pivot;
            GT_T(gt_add_row)(n - k - 1, -factor, a + k * n + k + 1, a + i * n + k + 1);
        }
    }
    return sign;
}

/* The cofactors c of a: det(a) times the transposed inverse, also where a is singular. Of the factors of a only the
 * last pivot t of u may be 0 without all cofactors being 0, and no step divides by it: with u = [v w; 0 t] the
 * adjugate of u is det(v) [t v^-1, -v^-1 w; 0, 1]. */
GT_SHARED int64_t GT_T(gt_cofactor)(int64_t batch, int64_t n, const GT_REAL *a, GT_REAL *c, GT_REAL *work)
{
    GT_REAL *m = work + n * n, *rows = m + n * n, *cols = rows + n;
    for (int64_t at = 0; at < batch; ++at, a += n * n, c += n * n) {
        if (!GT_T(gt_all_finite)(n * n, a)) {
            GT_T(gt_fill)(n * n, NAN, c);
            continue;
        }
        GT_T(gt_copy)(n * n, a, work);
        GT_REAL scale = GT_T(gt_lu_complete)(n, work, rows, cols);
        for (int64_t k = 0; k + 1 < n; ++k)
            scale *= work[k * n + k];
        for (int64_t k = 0; k + 1 < n; ++k)
            if (work[k * n + k] == 0) { /* two pivots or more are 0 */
                GT_T(gt_fill)(n * n, 0, c);
                scale = 0;
            }
        if (scale == 0 || n == 0)
            continue;
        GT_T(gt_fill)(n * n, 0, m);
        for (int64_t i = 0; i < n; ++i)
            m[i * n + i] = 1;
        GT_T(gt_substitute)(n, n, 1, 1, work, m);
        GT_REAL *last = m + (n - 1) * n;
        const GT_REAL t = work[n * n - 1];
        for (int64_t i = n - 2; i >= 0; --i) {
            GT_REAL *row = m + i * n;
            for (int64_t j = 0; j < n; ++j)
                row[j] = t * row[j] - work[i * n + n - 1] * last[j];
            for (int64_t k = i + 1; k + 1 < n; ++k)
                GT_T(gt_add_row)(n, -work[i * n + k], m + k * n, row);
            for (int64_t j = 0; j < n; ++j)
                row[j] /= work[i * n + i];
        }
        for (int64_t k = n - 1; k >= 0; --k) {
            if ((int64_t)cols[k] != k)
                GT_T(gt_swap_rows)(n, m + k * n, m + (int64_t)cols[k] * n);
            for (int64_t i = 0; i < n && (int64_t)rows[k] != k; ++i)
                GT_T(gt_swap_rows)(1, m + i * n + k, m + i * n + (int64_t)rows[k]);
        }
        for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < n; ++j)
                c[i * n + j] = scale * m[j * n + i];
    }
    return -1;
}

#elif !defined(GT_SOLVE_H)
#define GT_SOLVE_H

#include "gt_matrix.h"

#define GT_REAL float
#define GT_T(name) name##_f32
#include "gt_solve.h"
#undef GT_REAL
#undef GT_T
#define GT_REAL double
#define GT_T(name) name##_f64
#include "gt_solve.h"
#undef GT_REAL
#undef GT_T

#endif
