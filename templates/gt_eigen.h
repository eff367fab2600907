/* gt_eigen.h: eigenvalues and eigenvectors of symmetric matrices (see gt_matrix.h).
 *
 * Reflections make the matrix tridiagonal, implicitly shifted QL steps make that diagonal (Wilkinson and Reinsch,
 * Handbook for Automatic Computation, II/2 and II/3). Work: 2 n n + 3 n elements.
 */
#ifdef GT_REAL

/* a = q t q' for symmetric a: t has `diagonal` and, from element 0 on, `beside`; the rows of z become those of q'. */
GT_SHARED void GT_T(gt_tridiagonal)(int64_t n, GT_REAL *a, GT_REAL *z, GT_REAL *diagonal, GT_REAL *beside,
                                    GT_REAL *sums)
{
    for (int64_t k = 0; k < n; ++k) {
        GT_REAL *v = a + k * n + k + 1;
        const int64_t rest = n - k - 1;
        diagonal[k] = a[k * n + k];
        beside[k] = 0;
        if (rest == 0)
            continue;
        const GT_REAL most = GT_T(gt_largest)(rest - 1, v + 1);
        beside[k] = v[0];
        v[0] = 0; /* holds tau from here on, while the vector's first element is 1 */
        if (most == 0)
            continue;
        GT_REAL square = 0;
        for (int64_t i = 1; i < rest; ++i)
            square += (v[i] / most) * (v[i] / most);
        const GT_REAL norm = GT_T(gt_hypotenuse)(beside[k], most * GT_T(gt_root)(square));
        const GT_REAL beta = beside[k] < 0 ? norm : -norm;
        const GT_REAL first = beside[k] - beta, tau = -first / beta;
        for (int64_t i = 1; i < rest; ++i)
            v[i] /= first;
        beside[k] = beta;
        v[0] = 1;
        GT_T(gt_fill)(rest, 0, sums);
        for (int64_t i = 0; i < rest; ++i)
            GT_T(gt_add_row)(rest, tau * v[i], a + (k + 1 + i) * n + k + 1, sums);
        GT_T(gt_add_row)(rest, -tau / 2 * GT_T(gt_inner)(rest, sums, v), v, sums);
        for (int64_t i = 0; i < rest; ++i) {
            GT_REAL *row = a + (k + 1 + i) * n + k + 1;
            const GT_REAL x = v[i], y = sums[i];
            for (int64_t j = 0; j < rest; ++j)
                row[j] -= x * sums[j] + y * v[j];
        }
        v[0] = tau;
    }
    GT_T(gt_fill)(n * n, 0, z);
    for (int64_t i = 0; i < n; ++i)
        z[i * n + i] = 1;
    for (int64_t k = n - 2; k >= 0; --k) { /* z = (1 - tau v v') z, where z still is the identity before row k + 1 */
        GT_REAL *v = a + k * n + k + 1, *corner = z + (k + 1) * n + k + 1;
        const int64_t rest = n - k - 1;
        const GT_REAL tau = v[0];
        if (tau == 0)
            continue;
        v[0] = 1;
        GT_T(gt_fill)(rest, 0, sums);
        for (int64_t i = 0; i < rest; ++i)
            GT_T(gt_add_row)(rest, v[i], corner + i * n, sums);
        for (int64_t i = 0; i < rest; ++i)
            GT_T(gt_add_row)(rest, -tau * v[i], sums, corner + i * n);
    }
    GT_T(gt_transpose)(n, z);
}

/* One QL step on the block first ... last of a tridiagonal matrix, which turns the rows of z with it. */
GT_SHARED void GT_T(gt_ql_step)(int64_t n, int64_t first, int64_t last, GT_REAL *diagonal, GT_REAL *beside, GT_REAL *z)
{
    const GT_REAL half = (diagonal[first + 1] - diagonal[first]) / (2 * beside[first]);
    const GT_REAL root = GT_T(gt_hypotenuse)(half, 1);
    GT_REAL g = diagonal[last] - diagonal[first] + beside[first] / (half + (half < 0 ? -root : root));
    GT_REAL s = 1, c = 1, taken = 0;
    for (int64_t i = last - 1; i >= first; --i) {
        const GT_REAL f = s * beside[i], b = c * beside[i], r = GT_T(gt_hypotenuse)(f, g);
        beside[i + 1] = r;
        if (r == 0) { /* the block falls apart here */
            diagonal[i + 1] -= taken;
            beside[last] = 0;
            return;
        }
        s = f / r;
        c = g / r;
        g = diagonal[i + 1] - taken;
        const GT_REAL more = (diagonal[i] - g) * s + 2 * c * b;
        taken = s * more;
        diagonal[i + 1] = g + taken;
        g = c * more - b;
        GT_T(gt_turn_rows)(n, c, s, z + i * n, z + (i + 1) * n);
    }
    diagonal[first] -= taken;
    beside[first] = g;
    beside[last] = 0;
}

/* a = v diag(w) v' with growing w, of a symmetric matrix whose lower triangle is read: `result` has one row of w, then
 * the n rows of v. Column j of v is oriented by gt_orientation. Fails where QL steps do not end. */
GT_SHARED int64_t GT_T(gt_eigh)(int64_t batch, int64_t n, const GT_REAL *a, GT_REAL *result, GT_REAL *work)
{
    GT_REAL *z = work + n * n, *diagonal = z + n * n, *beside = diagonal + n, *sums = beside + n;
    for (int64_t at = 0; at < batch; ++at, a += n * n, result += (n + 1) * n) {
        if (!GT_T(gt_all_finite)(n * n, a)) {
            GT_T(gt_fill)((n + 1) * n, NAN, result);
            continue;
        }
        const GT_REAL most = GT_T(gt_largest)(n * n, a), scale = most > 0 ? most : 1;
        for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < n; ++j)
                work[i * n + j] = (j <= i ? a[i * n + j] : a[j * n + i]) / scale;
        GT_T(gt_tridiagonal)(n, work, z, diagonal, beside, sums);
        for (int64_t first = 0; first < n; ++first)
            for (int steps = 0;; ++steps) {
                int64_t last = first;
                for (; last + 1 < n; ++last) {
                    const GT_REAL size = GT_T(gt_magnitude)(diagonal[last]) + GT_T(gt_magnitude)(diagonal[last + 1]);
                    if (GT_T(gt_magnitude)(beside[last]) <= GT_T(gt_grain) / 2 * size)
                        break;
                }
                if (last == first)
                    break;
                if (steps == 80)
                    return at;
                GT_T(gt_ql_step)(n, first, last, diagonal, beside, z);
            }
        for (int64_t k = 0; k < n; ++k) { /* the smallest first */
            int64_t least = k;
            for (int64_t i = k + 1; i < n; ++i)
                least = diagonal[i] < diagonal[least] ? i : least;
            if (least != k) {
                GT_T(gt_swap_rows)(1, diagonal + k, diagonal + least);
                GT_T(gt_swap_rows)(n, z + k * n, z + least * n);
            }
            const GT_REAL sign = GT_T(gt_orientation)(n, 1, z + k * n);
            result[k] = diagonal[k] * scale;
            for (int64_t i = 0; i < n; ++i)
                result[(i + 1) * n + k] = sign * z[k * n + i];
        }
    }
    return -1;
}

#elif !defined(GT_EIGEN_H)
#define GT_EIGEN_H

#include "gt_matrix.h"

#define GT_REAL float
#define GT_T(name) name##_f32
#include "gt_eigen.h"
#undef GT_REAL
#undef GT_T
#define GT_REAL double
#define GT_T(name) name##_f64
#include "gt_eigen.h"
#undef GT_REAL
#undef GT_T

#endif
