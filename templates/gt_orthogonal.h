/* gt_orthogonal.h: QR by reflections, singular values by rotations, the pseudo-inverse (see gt_matrix.h).
 *
 * Matrices have m rows and n <= m columns. Work: qr m n + n + m elements, svd and pinv as said there.
 */
#ifdef GT_REAL

/* a = q r in the place of a: r in the upper triangle, below it the vectors v (first element 1, not stored) of the
 * reflections 1 - tau v v'. As in LAPACK: nothing to reflect leaves the sign of a diagonal element, else it turns. */
GT_SHARED void GT_T(gt_reflect)(int64_t m, int64_t n, GT_REAL *a, GT_REAL *tau, GT_REAL *sums)
{
    for (int64_t k = 0; k < n; ++k) {
        GT_REAL most = 0, square = 0;
        for (int64_t i = k + 1; i < m; ++i)
            most = GT_T(gt_magnitude)(a[i * n + k]) > most ? GT_T(gt_magnitude)(a[i * n + k]) : most;
        tau[k] = 0;
        if (most == 0)
            continue;
        for (int64_t i = k + 1; i < m; ++i)
            square += (a[i * n + k] / most) * (a[i * n + k] / most);
        GT_REAL *row = a + k * n;
        const GT_REAL norm = GT_T(gt_hypotenuse)(row[k], most * GT_T(gt_root)(square));
        const GT_REAL beta = row[k] < 0 ? norm : -norm;
        const GT_REAL first = row[k] - beta;
        tau[k] = -first / beta;
        row[k] = beta;
        for (int64_t i = k + 1; i < m; ++i)
            a[i * n + k] /= first;
        GT_T(gt_copy)(n - k - 1, row + k + 1, sums);
        for (int64_t i = k + 1; i < m; ++i)
            GT_T(gt_add_row)(n - k - 1, a[i * n + k], a + i * n + k + 1, sums);
        GT_T(gt_add_row)(n - k - 1, -tau[k], sums, row + k + 1);
        for (int64_t i = k + 1; i < m; ++i)
            GT_T(gt_add_row)(n - k - 1, -tau[k] * a[i * n + k], sums, a + i * n + k + 1);
    }
}

/* c = q c for m rows of `cols`, q from gt_reflect. */
GT_SHARED void GT_T(gt_apply_q)(int64_t m, int64_t n, int64_t cols, const GT_REAL *a, const GT_REAL *tau, GT_REAL *c,
                                GT_REAL *sums)
{
    for (int64_t k = n - 1; k >= 0; --k) {
        if (tau[k] == 0)
            continue;
        GT_T(gt_copy)(cols, c + k * cols, sums);
        for (int64_t i = k + 1; i < m; ++i)
            GT_T(gt_add_row)(cols, a[i * n + k], c + i * cols, sums);
        GT_T(gt_add_row)(cols, -tau[k], sums, c + k * cols);
        for (int64_t i = k + 1; i < m; ++i)
            GT_T(gt_add_row)(cols, -tau[k] * a[i * n + k], sums, c + i * cols);
    }
}

/* a = q r: `result` has the m rows of q, then the n rows of r. */
GT_SHARED int64_t GT_T(gt_qr)(int64_t batch, int64_t m, int64_t n, const GT_REAL *a, GT_REAL *result, GT_REAL *work)
{
    GT_REAL *tau = work + m * n, *sums = tau + n;
    for (int64_t at = 0; at < batch; ++at, a += m * n, result += (m + n) * n) {
        if (!GT_T(gt_all_finite)(m * n, a)) {
            GT_T(gt_fill)(m * n, NAN, result);
            GT_T(gt_nan_triangle)(n, 0, result + m * n);
            continue;
        }
        GT_T(gt_copy)(m * n, a, work);
        GT_T(gt_reflect)(m, n, work, tau, sums);
        GT_T(gt_fill)((m + n) * n, 0, result);
        for (int64_t i = 0; i < n; ++i) {
            result[i * n + i] = 1;
            GT_T(gt_copy)(n - i, work + i * n + i, result + (m + i) * n + i);
        }
        GT_T(gt_apply_q)(m, n, n, work, tau, result, sums);
    }
    return -1;
}

/* The whole of q, m rows of m: behind the columns of gt_qr those that complete them to a basis. */
GT_SHARED int64_t GT_T(gt_qr_basis)(int64_t batch, int64_t m, int64_t n, const GT_REAL *a, GT_REAL *q, GT_REAL *work)
{
    GT_REAL *tau = work + m * n, *sums = tau + n;
    for (int64_t at = 0; at < batch; ++at, a += m * n, q += m * m) {
        if (!GT_T(gt_all_finite)(m * n, a)) {
            GT_T(gt_fill)(m * m, NAN, q);
            continue;
        }
        GT_T(gt_copy)(m * n, a, work);
        GT_T(gt_reflect)(m, n, work, tau, sums);
        GT_T(gt_fill)(m * m, 0, q);
        for (int64_t i = 0; i < m; ++i)
            q[i * m + i] = 1;
        GT_T(gt_apply_q)(m, n, m, work, tau, q, sums);
    }
    return -1;
}

/* Rows of norm 0, from `first` on, become unit vectors at right angles to the rows before them. */
GT_SHARED void GT_T(gt_complete_rows)(int64_t n, int64_t first, GT_REAL *rows)
{
    int64_t next = 0;
    for (int64_t k = first; k < n; ++k) {
        GT_REAL norm = 0;
        while (norm < (GT_REAL)0.5 / (GT_REAL)n) { /* n unit vectors have n in all: one has 1 / n or more left */
            GT_REAL *row = rows + k * n;
            GT_T(gt_fill)(n, 0, row);
            row[next++ % n] = 1;
            for (int twice = 0; twice < 2; ++twice)
                for (int64_t j = 0; j < k; ++j)
                    GT_T(gt_add_row)(n, -GT_T(gt_inner)(n, rows + j * n, row), rows + j * n, row);
            norm = GT_T(gt_inner)(n, row, row);
        }
        norm = GT_T(gt_root)(norm);
        for (int64_t j = 0; j < n; ++j)
            rows[k * n + j] /= norm;
    }
}

/* One-sided rotations (Hestenes; de Rijk's order): turn pairs of the rows of r, n rows of n, until all are at right
 * angles, the longest first; `turned` takes part. Then r = turned' diag(s) v' with unit rows of v' in the place of r. */
GT_SHARED void GT_T(gt_rotate)(int64_t n, GT_REAL *r, GT_REAL *turned, GT_REAL *s, GT_REAL *squares)
{
    const GT_REAL scale = GT_T(gt_largest)(n * n, r);
    const GT_REAL tiny = 2 * GT_T(gt_grain) * GT_T(gt_root)((GT_REAL)n);
    int64_t rank = 0, moved = scale > 0;
    for (int64_t i = 0; i < n * n && scale > 0; ++i)
        r[i] /= scale;
    for (int sweep = 0; sweep < 40 && moved; ++sweep) {
        moved = 0;
        for (int64_t i = 0; i < n; ++i)
            squares[i] = GT_T(gt_inner)(n, r + i * n, r + i * n);
        for (int64_t p = 0; p + 1 < n; ++p)
            for (int64_t q = p + 1; q < n; ++q) {
                GT_REAL *x = r + p * n, *y = r + q * n;
                if (squares[p] < squares[q]) {
                    GT_T(gt_swap_rows)(n, x, y);
                    GT_T(gt_swap_rows)(n, turned + p * n, turned + q * n);
                    GT_T(gt_swap_rows)(1, squares + p, squares + q);
                }
                const GT_REAL inner = GT_T(gt_inner)(n, x, y);
                if (!(GT_T(gt_magnitude)(inner) > tiny * GT_T(gt_root)(squares[p]) * GT_T(gt_root)(squares[q])))
                    continue;
                const GT_REAL z = (squares[q] - squares[p]) / (2 * inner);
                const GT_REAL t = (z < 0 ? -1 : 1) / (GT_T(gt_magnitude)(z) + GT_T(gt_hypotenuse)(z, 1));
                const GT_REAL c = 1 / GT_T(gt_root)(1 + t * t);
                GT_T(gt_turn_rows)(n, c, c * t, x, y);
                GT_T(gt_turn_rows)(n, c, c * t, turned + p * n, turned + q * n);
                squares[p] -= t * inner;
                squares[q] += t * inner;
                if (squares[q] < GT_T(gt_grain) * squares[p]) /* much was taken away: count again */
                    squares[q] = GT_T(gt_inner)(n, y, y);
                moved = 1;
            }
    }
    for (int64_t i = 0; i < n; ++i) {
        const GT_REAL most = GT_T(gt_largest)(n, r + i * n);
        GT_REAL norm = 0;
        for (int64_t j = 0; j < n && most > 0; ++j)
            norm += (r[i * n + j] / most) * (r[i * n + j] / most);
        norm = most * GT_T(gt_root)(norm);
        s[i] = norm * scale;
        for (int64_t j = 0; j < n && norm > 0; ++j)
            r[i * n + j] /= norm;
    }
    for (int64_t i = 1; i < n; ++i) /* what rounding left out of order */
        for (int64_t j = i; j > 0 && s[j] > s[j - 1]; --j) {
            GT_T(gt_swap_rows)(1, s + j, s + j - 1);
            GT_T(gt_swap_rows)(n, r + j * n, r + (j - 1) * n);
            GT_T(gt_swap_rows)(n, turned + j * n, turned + (j - 1) * n);
        }
    while (rank < n && s[rank] > 0)
        ++rank;
    GT_T(gt_complete_rows)(n, rank, r);
}

/* a = u diag(s) v' with falling s: `result` has the m rows of u, one of s, the n rows of v'. Column j of u is
 * oriented by gt_orientation. Work: m n + n n + n + m. */
GT_SHARED int64_t GT_T(gt_svd)(int64_t batch, int64_t m, int64_t n, const GT_REAL *a, GT_REAL *result, GT_REAL *work)
{
    GT_REAL *turned = work + m * n, *tau = turned + n * n, *sums = tau + n;
    for (int64_t at = 0; at < batch; ++at, a += m * n, result += (m + 1 + n) * n) {
        GT_REAL *s = result + m * n, *v = s + n;
        if (!GT_T(gt_all_finite)(m * n, a)) {
            GT_T(gt_fill)((m + 1 + n) * n, NAN, result);
            continue;
        }
        GT_T(gt_copy)(m * n, a, work);
        GT_T(gt_reflect)(m, n, work, tau, sums);
        GT_T(gt_fill)(m * n, 0, result);
        GT_T(gt_fill)(n * n, 0, v);
        GT_T(gt_fill)(n * n, 0, turned);
        for (int64_t i = 0; i < n; ++i) {
            turned[i * n + i] = 1;
            GT_T(gt_copy)(n - i, work + i * n + i, v + i * n + i);
        }
        GT_T(gt_rotate)(n, v, turned, s, sums);
        for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < n; ++j)
                result[i * n + j] = turned[j * n + i];
        GT_T(gt_apply_q)(m, n, n, work, tau, result, sums);
        for (int64_t j = 0; j < n; ++j)
            if (GT_T(gt_orientation)(m, n, result + j) < 0) {
                for (int64_t i = 0; i < m; ++i)
                    result[i * n + j] = -result[i * n + j];
                for (int64_t i = 0; i < n; ++i)
                    v[j * n + i] = -v[j * n + i];
            }
    }
    return -1;
}

/* The pseudo-inverse p, n rows of m: singular values up to its `cutoff` times the largest count as 0. Work: that of svd
 * and (m + 1 + n) n more, where its result lies. */
GT_SHARED int64_t GT_T(gt_pinv)(int64_t batch, int64_t m, int64_t n, const GT_REAL *a, const GT_REAL *cutoff,
                                GT_REAL *p, GT_REAL *work)
{
    GT_REAL *u = work, *s = u + m * n, *v = s + n, *rest = v + n * n;
    for (int64_t at = 0; at < batch; ++at, ++cutoff, a += m * n, p += n * m) {
        (void)GT_T(gt_svd)(1, m, n, a, u, rest);
        GT_T(gt_fill)(n * m, n > 0 && s[0] != s[0] ? NAN : 0, p);
        for (int64_t k = 0; k < n; ++k)
            if (s[k] > *cutoff * s[0])
                for (int64_t i = 0; i < n; ++i)
                    for (int64_t j = 0; j < m; ++j)
                        p[i * m + j] += v[k * n + i] / s[k] * u[j * n + k];
    }
    return -1;
}

#elif !defined(GT_ORTHOGONAL_H)
#define GT_ORTHOGONAL_H

#include "gt_matrix.h"

#define GT_REAL float
#define GT_T(name) name##_f32
#include "gt_orthogonal.h"
#undef GT_REAL
#undef GT_T
#define GT_REAL double
#define GT_T(name) name##_f64
#include "gt_orthogonal.h"
#undef GT_REAL
#undef GT_T

#endif
