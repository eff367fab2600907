/* gt_math_f64.h: the float64 half of gt_math.h, which says what holds of it.
 *
 * Where one double would lose too much, a value is carried as the unevaluated sum of two (gt_dd), and a power
 * of two beside it where it may leave the range (gt_scaled).
 */
#ifndef GT_MATH_F64_H
#define GT_MATH_F64_H

#include "gt_double.h"

/* ---- cores of the float64 functions: sums of two doubles ---------------------------------------------- */

/* hi + lo, where lo is at most half a unit in the last place of hi. */
typedef struct {
    double hi, lo;
} gt_dd;

/* a + b exactly, for |a| >= |b| or a == 0. */
GT_INLINE gt_dd gt_dd_fast_sum(double a, double b)
{
    gt_dd sum = {a + b, 0};
    sum.lo = b - (sum.hi - a);
    return sum;
}

/* a + b exactly. */
GT_INLINE gt_dd gt_dd_sum(double a, double b)
{
    gt_dd sum = {a + b, 0};
    double b_part = sum.hi - a;
    sum.lo = (a - (sum.hi - b_part)) + (b - b_part);
    return sum;
}

/* a + b for |a| >= |b|. */
GT_INLINE gt_dd gt_dd_add(double a, gt_dd b)
{
    gt_dd sum = gt_dd_fast_sum(a, b.hi);
    return gt_dd_fast_sum(sum.hi, sum.lo + b.lo);
}

/* The upper 26 bits of a, |a| < 2^996 (Dekker's splitting). */
GT_INLINE double gt_dd_upper(double a)
{
    double scaled = a * 134217729.0;
    return scaled - (scaled - a);
}

/* a * b exactly, as long as nothing overflows or underflows. */
GT_INLINE gt_dd gt_dd_product(double a, double b)
{
    gt_dd product = {a * b, 0};
#if GT_FUSED
    product.lo = VFMA(a, b, -product.hi);
#else
    double a1 = gt_dd_upper(a), a2 = a - a1, b1 = gt_dd_upper(b), b2 = b - b1;
    product.lo = ((a1 * b1 - product.hi) + a1 * b2 + a2 * b1) + a2 * b2;
#endif
    return product;
}

/* a * b, rounded to double; a zero keeps its sign. */
GT_INLINE double gt_dd_scaled(double a, gt_dd b)
{
    gt_dd product = gt_dd_product(a, b.hi);
    return product.hi == 0 ? product.hi : product.hi + (product.lo + a * b.lo);
}

GT_INLINE gt_dd gt_dd_mul(gt_dd a, gt_dd b)
{
    gt_dd product = gt_dd_product(a.hi, b.hi);
    return gt_dd_fast_sum(product.hi, product.lo + (a.hi * b.lo + a.lo * b.hi));
}

GT_INLINE gt_dd gt_dd_div(gt_dd a, gt_dd b)
{
    double quotient = a.hi / b.hi;
    gt_dd back = gt_dd_product(quotient, b.hi);
    double rest = ((a.hi - back.hi) - back.lo) + (a.lo - quotient * b.lo);
    return gt_dd_fast_sum(quotient, rest / b.hi);
}

/* a * 2^k for a whole |k| <= 2044, in two steps, since 2^k itself may be out of range. */
GT_INLINE double gt_scale(double a, double k)
{
    double shifted = 0.5 * k + GT_ROUNDER, half = shifted - GT_ROUNDER;
    return a * gt_power_of_two(shifted) * gt_power_of_two(GT_ROUNDER + (k - half));
}

/* e^(x + low) = 2^k (1 + r + rest). */
typedef struct {
    double k, r, rest;
} gt_power_parts;

/* Beyond -1400 and 720 every float64 result is settled, also after a product with x. The fit:
 * (e^r - 1 - r) / r^2 for |r| <= ln(2)/2. */
GT_INLINE gt_power_parts gt_natural_power(double x, double low)
{
    double inside = gt_clamp(x, -1400, 720);
    double k = VFMA(inside, GT_LOG2_E, GT_ROUNDER) - GT_ROUNDER;
    double upper = inside - k * 0.6931471804855391; /* exact: the constant has 33 bits */
    double lower = k * 7.440617110012397e-11 - low;
    double r = upper - lower, r_low = (upper - r) - lower;
    double q = 2.0926945064454525e-09;
    q = VFMA(q, r, 2.5112287787055278e-08);
    q = VFMA(q, r, 2.7557233348601365e-07);
    q = VFMA(q, r, 2.7557234101327535e-06);
    q = VFMA(q, r, 2.4801587373764646e-05);
    q = VFMA(q, r, 0.00019841269897192252);
    q = VFMA(q, r, 0.0013888888888858421);
    q = VFMA(q, r, 0.008333333333316685);
    q = VFMA(q, r, 0.04166666666666673);
    q = VFMA(q, r, 0.16666666666666685);
    q = VFMA(q, r, 0.5);
    gt_power_parts parts = {k, r, VFMA(q * r, r, VFMA(r_low, r, r_low))};
    return parts;
}

/* value * 2^k. */
typedef struct {
    gt_dd value;
    double k;
} gt_scaled;

/* e^(x + low). */
GT_INLINE gt_scaled gt_natural_exp(double x, double low)
{
    gt_power_parts e = gt_natural_power(x, low);
    gt_dd first = gt_dd_fast_sum(1, e.r);
    gt_scaled result = {gt_dd_fast_sum(first.hi, first.lo + e.rest), e.k};
    return result;
}

/* e^x - 1 for |x| <= 100. */
GT_INLINE gt_dd gt_natural_expm1(double x)
{
    gt_power_parts e = gt_natural_power(x, 0);
    double scale = gt_power_of_two(GT_ROUNDER + e.k);
    gt_dd whole = gt_dd_sum(scale, -1), sum = gt_dd_sum(whole.hi, scale * e.r);
    return gt_dd_fast_sum(sum.hi, sum.lo + (whole.lo + scale * e.rest));
}

/* value 2^k, 2^-200 being nothing beside 1. */
GT_INLINE gt_dd gt_beside_one(gt_scaled s)
{
    double scale = gt_power_of_two(GT_ROUNDER + (s.k < -200 ? -200 : s.k));
    gt_dd result = {s.value.hi * scale, s.value.lo * scale};
    return result;
}

/* 1 - a. */
GT_INLINE gt_dd gt_one_less(gt_dd a)
{
    gt_dd minus = {-a.hi, -a.lo}, sum = gt_dd_sum(1, minus.hi);
    return gt_dd_fast_sum(sum.hi, sum.lo + minus.lo);
}

/* sigmoid(x + low): 1 / (1 + e^-x) or, for negative x, e^x / (1 + e^x). */
GT_INLINE gt_scaled gt_logistic(double x, double low)
{
    gt_scaled e = gt_natural_exp(-fabs(x), x > 0 ? -low : low);
    gt_dd above = {x > 0 ? 1 : e.value.hi, x > 0 ? 0 : e.value.lo};
    gt_scaled result = {gt_dd_div(above, gt_dd_add(1, gt_beside_one(e))), x > 0 ? 0 : e.k};
    return result;
}

/* e^(z^2) erfc(z) for 0 <= z <= 28. The fit: (1 + 2z) times it in t = (z - 3) / (z + 3), z up to 27.5, where float64
 * has underflown. The six lowest coefficients are sums of two doubles; below them one double is enough, with the slope
 * taking what t.hi lacks. */
GT_INLINE gt_dd gt_erfcx(gt_dd z)
{
    static const double upper[] = {
        -9.577890728000958e-10, -6.236233691372148e-09, -6.044428814167011e-09, 4.027653162778815e-08,
        8.999923874065859e-08, -1.427260627968432e-07, -6.055886821070278e-07, 3.594136652651075e-07,
        3.465920263088607e-06, -7.334488426302311e-07, -2.0098070519090445e-05, 4.950289018483258e-06,
        0.00012509871915921246, -0.00010515999941056527, -0.0007798321682428252, 0.0018886903886490133,
        0.002529391805559858, -0.02377051492108515,
    };
    static const gt_dd lower[] = {
        {0.06830802734457582, -5.55e-18},
        {-0.11927366341520843, 5.89e-18},
        {0.12964515870274473, -1.35e-17},
        {-0.04756229435345232, 1.11e-18},
        {-0.13562110612458106, 1.34e-17},
        {1.2530080582697296, 4.84e-17},
    };
    double inside = z.hi > 27.5 ? 27.5 : z.hi;
    gt_dd minus = gt_dd_sum(inside, -3), plus = gt_dd_sum(inside, 3), below = gt_dd_sum(1, 2 * z.hi);
    minus.lo += z.lo;
    plus.lo += z.lo;
    below.lo += 2 * z.lo;
    gt_dd t = gt_dd_div(minus, plus);
    double q = 0, slope = 0;
    for (int i = 0; i < (int)(sizeof upper / sizeof *upper); i++) {
        slope = VFMA(slope, t.hi, q);
        q = VFMA(q, t.hi, upper[i]);
    }
    gt_dd above = {q, slope * t.lo};
    for (int i = 0; i < (int)(sizeof lower / sizeof *lower); i++) {
        gt_dd product = gt_dd_mul(above, t), sum = gt_dd_sum(lower[i].hi, product.hi);
        above = gt_dd_fast_sum(sum.hi, sum.lo + (product.lo + lower[i].lo));
    }
    return gt_dd_div(above, below);
}

/* share e^-square. */
GT_INLINE gt_scaled gt_decayed(gt_dd share, gt_dd square)
{
    gt_scaled result = gt_natural_exp(-square.hi, -square.lo);
    result.value = gt_dd_mul(share, result.value);
    return result;
}

/* ---- float64 ------------------------------------------------------------------------------------------ */

GT_INLINE double gt_exp2_f64(double x) { return exp2(x); }

GT_INLINE double gt_log_f64(double x) { return log(x); }

GT_INLINE double gt_log2_f64(double x) { return log2(x); }

GT_INLINE double gt_log10_f64(double x) { return log10(x); }

GT_INLINE double gt_log1p_f64(double x) { return log1p(x); }

GT_INLINE double gt_erf_f64(double x) { return erf(x); }

GT_INLINE double gt_sin_f64(double x) { return sin(x); }

GT_INLINE double gt_cos_f64(double x) { return cos(x); }

GT_INLINE double gt_tan_f64(double x) { return tan(x); }

GT_INLINE double gt_asin_f64(double x) { return asin(x); }

GT_INLINE double gt_acos_f64(double x) { return acos(x); }

GT_INLINE double gt_atan_f64(double x) { return atan(x); }

GT_INLINE double gt_atan2_f64(double y, double x) { return atan2(y, x); }

GT_INLINE double gt_copysign_f64(double size, double sign) { return copysign(size, sign); }

GT_INLINE double gt_hypot_f64(double x, double y) { return hypot(x, y); }

GT_INLINE double gt_pow_f64(double x, double y) { return pow(x, y); }

GT_INLINE double gt_exp_f64(double x)
{
    gt_scaled e = gt_natural_exp(x, 0);
    return gt_scale(e.value.hi, e.k);
}

GT_INLINE double gt_expm1_f64(double x)
{
    double inside = gt_natural_expm1(gt_clamp(x, -60, 100)).hi;
    return x == 0 ? x : x > 100 ? gt_exp_f64(x) : inside;
}

/* Below 2^-28 sinh x and tanh x are x; from 40 on sinh x and cosh x are e^x / 2. */
GT_INLINE double gt_sinh_f64(double x)
{
    double a = fabs(x);
    gt_dd grown = gt_natural_expm1(a > 40 ? 40 : a), sum = gt_dd_sum(1, grown.hi);
    sum.lo += grown.lo;
    gt_dd share = gt_dd_div(grown, sum);
    gt_scaled e = gt_natural_exp(a, 0);
    double inside = 0.5 * (grown.hi + (share.hi + (grown.lo + share.lo)));
    return a < 0x1p-28 ? x : copysign(a > 40 ? gt_scale(e.value.hi, e.k - 1) : inside, x);
}

GT_INLINE double gt_cosh_f64(double x)
{
    gt_scaled e = gt_natural_exp(fabs(x), 0);
    double scale = gt_power_of_two(GT_ROUNDER + (e.k > 60 ? 60 : e.k));
    gt_dd one = {1, 0}, grown = {e.value.hi * scale, e.value.lo * scale}, share = gt_dd_div(one, grown);
    double inside = 0.5 * (grown.hi + (share.hi + (grown.lo + share.lo)));
    return fabs(x) > 40 ? gt_scale(e.value.hi, e.k - 1) : inside;
}

GT_INLINE double gt_tanh_f64(double x)
{
    double a = fabs(x);
    gt_dd grown = gt_natural_expm1(a > 20 ? 40 : 2 * a), sum = gt_dd_sum(2, grown.hi);
    sum.lo += grown.lo;
    return a < 0x1p-28 ? x : copysign(gt_dd_div(grown, sum).hi, x);
}

GT_INLINE double gt_sigmoid_f64(double x)
{
    gt_scaled s = gt_logistic(x, 0);
    return gt_scale(s.value.hi, s.k);
}

GT_INLINE double gt_softplus_f64(double x) { return (x < 0 ? 0 : x) + log1p(gt_exp_f64(-fabs(x))); }

GT_INLINE double gt_log_sigmoid_f64(double x) { return -gt_softplus_f64(-x); }

/* silu and both forms of gelu are x itself for large x, and -0 far below 0. */
GT_INLINE double gt_silu_f64(double x)
{
    double inside = gt_clamp(x, -1300, 40);
    gt_scaled s = gt_logistic(inside, 0);
    return x > 40 ? x : gt_scale(gt_dd_scaled(inside, s.value), s.k);
}

/* v = A x + B x^3, A = 2 sqrt(2/pi), B = 0.044715 A, each as a sum of two doubles. */
typedef struct {
    gt_dd value, cube;
} gt_cubic;

GT_INLINE gt_cubic gt_gelu_cubic(double x)
{
    const gt_dd a = {1.5957691216057308, -9.96930880911092e-17}, b = {0.07135481627260025, -6.175149918155315e-19};
    gt_dd point = {x, 0}, growth = gt_dd_mul(b, gt_dd_product(x, x)), slope = gt_dd_sum(a.hi, growth.hi);
    slope.lo += a.lo + growth.lo;
    gt_cubic v = {gt_dd_mul(slope, point), gt_dd_mul(growth, point)};
    return v;
}

GT_INLINE double gt_gelu_tanh_f64(double x)
{
    double inside = gt_clamp(x, -50, 10);
    gt_cubic v = gt_gelu_cubic(inside);
    gt_scaled s = gt_logistic(v.value.hi, v.value.lo);
    return x > 10 ? x : gt_scale(gt_dd_scaled(inside, s.value), s.k);
}

GT_INLINE double gt_erfc_f64(double x)
{
    gt_dd z = {gt_clamp(fabs(x), 0, 28), 0};
    gt_scaled tail = gt_decayed(gt_erfcx(z), gt_dd_product(z.hi, z.hi));
    double value = gt_scale(tail.value.hi, tail.k);
    return x < 0 ? 2 - value : value;
}

/* |x| / sqrt(2). */
GT_INLINE gt_dd gt_over_root_two(double a)
{
    gt_dd z = gt_dd_product(a, GT_SQRT_HALF);
    z.lo += a * -4.833646656726457e-17; /* what GT_SQRT_HALF lacks */
    return z;
}

GT_INLINE double gt_gelu_f64(double x)
{
    double inside = gt_clamp(x, -40, 10), a = fabs(inside);
    gt_scaled tail = gt_decayed(gt_erfcx(gt_over_root_two(a)), gt_dd_product(inside, 0.5 * inside));
    tail.k -= 1;
    double below = gt_scale(gt_dd_scaled(inside, tail.value), tail.k);
    return x > 10 ? x : inside < 0 ? below : gt_dd_scaled(inside, gt_one_less(gt_beside_one(tail)));
}

/* ---- derivatives: s for x <= 0 and 1 - s for x > 0, s that of -|x| -------------------------------------- */

GT_INLINE double gt_slope_of_half(double x, gt_scaled s)
{
    return x > 0 ? gt_one_less(gt_beside_one(s)).hi : gt_scale(s.value.hi, s.k);
}

GT_INLINE double gt_sigmoid_slope_f64(double x)
{
    gt_scaled s = gt_logistic(-fabs(x), 0);
    return gt_scale(gt_dd_mul(s.value, gt_one_less(gt_beside_one(s))).hi, s.k);
}

/* s = Phi(-a) - a Phi'(a) = (erfcx(a / sqrt(2)) / 2 - a / sqrt(2 pi)) e^(-a^2 / 2). */
GT_INLINE double gt_gelu_slope_f64(double x)
{
    const gt_dd density = {0.3989422804014327, -2.49232720227773e-17};
    double a = gt_clamp(fabs(x), 0, 40);
    gt_dd share = gt_erfcx(gt_over_root_two(a)), point = {-a, 0}, steep = gt_dd_mul(density, point);
    gt_dd sum = gt_dd_sum(0.5 * share.hi, steep.hi);
    sum = gt_dd_fast_sum(sum.hi, sum.lo + (0.5 * share.lo + steep.lo));
    return gt_slope_of_half(x, gt_decayed(sum, gt_dd_product(a, 0.5 * a)));
}

/* s = q (1 - a v' (1 - q)), q = sigmoid(-v), v = A a + B a^3, a v' = v + 2 B a^3. */
GT_INLINE double gt_gelu_tanh_slope_f64(double x)
{
    double a = gt_clamp(fabs(x), 0, 50);
    gt_cubic v = gt_gelu_cubic(a);
    gt_scaled q = gt_logistic(-v.value.hi, -v.value.lo);
    gt_dd steep = gt_dd_sum(v.value.hi, 2 * v.cube.hi);
    steep = gt_dd_fast_sum(steep.hi, steep.lo + (v.value.lo + 2 * v.cube.lo));
    q.value = gt_dd_mul(q.value, gt_one_less(gt_dd_mul(steep, gt_one_less(gt_beside_one(q)))));
    return gt_slope_of_half(x, q);
}

#endif
