/* gt_math.h: the mathematical functions of generated code, float32 and float64.
 *
 * A function is called gt_<name>_f32 or gt_<name>_f64. Right for every input: signed zeros, denormals,
 * infinities and NaN; never an errno, never undefined; without branches but where it calls the C library.
 * Compile with -ffp-contract=off and never with -ffast-math, as gt_scalar.h says.
 *
 * float32 functions compute in double with polynomials just long enough, and round once at the end; so
 * reductions need no splitting, denormal results come by themselves, and the error hardly exceeds half a
 * unit in the last place. float64 functions carry a low part (gt_dd) where one double would lose too much.
 *
 *   name          float32       float64
 *   exp           0.51 own      0.62 own
 *   exp2          0.51 own      0.70 libm
 *   expm1         0.51 own      0.88 own
 *   log           0.51 own      0.70 libm
 *   log2          0.51 own      0.70 libm
 *   log10         0.51 own      1.60 libm
 *   log1p         0.51 own      0.80 libm
 *   sin           0.51 libm     0.70 libm
 *   cos           0.51 libm     0.70 libm
 *   tan           0.51 libm     0.70 libm
 *   asin          0.51 own      0.70 libm
 *   acos          0.51 own      0.70 libm
 *   atan          0.51 own      0.70 libm
 *   atan2         0.51 own      0.70 libm
 *   sinh          0.51 own      0.95 own
 *   cosh          0.51 own      0.66 own
 *   tanh          0.51 own      0.71 own
 *   sigmoid       0.51 own      0.62 own
 *   log_sigmoid   0.51 own      1.50 libm
 *   softplus      0.51 own      1.50 libm
 *   silu          0.51 own      0.62 own
 *   erf           0.51 own      1.00 libm
 *   erfc          0.51 own      0.80 own
 *   gelu          0.51 own      0.62 own
 *   gelu_tanh     0.51 own      0.62 own
 *   pow           0.51 own      0.70 libm
 *   hypot         0.51 own      0.70 libm
 *
 * The figures bound the largest error seen, in units in the last place of the exact result: float32 over every
 * 37th bit pattern (pow, hypot and atan2: 4e5 pairs and more), float64 at 25000 points and more, with and without
 * fused multiply-add. own: formulas as written below, their polynomials fitted with the Remez exchange in 50
 * digits to the function named beside them. libm: the C library's double function, here glibc 2.36; log_sigmoid
 * and softplus in float64 are formulas of ours around its log1p.
 *
 * What underflows is rounded as any denormal: the absolute error is then below 1e-45 or 5e-324. At -infinity,
 * where the bare formula would give NaN, gelu, gelu_tanh and silu are -0, their limit.
 */
#ifndef GT_MATH_H
#define GT_MATH_H

#include "gt_scalar.h"

#define GT_LN2 0.6931471805599453
#define GT_LOG2_E 1.4426950408889634
#define GT_LOG10_E 0.4342944819032518
#define GT_PI 3.141592653589793
#define GT_SQRT_HALF 0.7071067811865476

/* ---- bits, powers of two ------------------------------------------------------------------------------ */

GT_INLINE uint64_t gt_to_bits(double value)
{
    union {
        double value;
        uint64_t bits;
    } u = {value};
    return u.bits;
}

GT_INLINE double gt_from_bits(uint64_t bits)
{
    union {
        uint64_t bits;
        double value;
    } u = {bits};
    return u.value;
}

/* 1.5 * 2^52. The sum of it and x, |x| < 2^51, is rounded to a whole number k, whose bits are then the lowest
 * of the sum. This vectorises where conversions to 64-bit integers do not. */
#define GT_ROUNDER 6755399441055744.0

/* 2^k for shifted = GT_ROUNDER + k, -1022 <= k <= 1023. */
GT_INLINE double gt_power_of_two(double shifted)
{
    return gt_from_bits((gt_to_bits(shifted) << 52) + (UINT64_C(1023) << 52));
}

/* Keeps NaN. */
GT_INLINE double gt_clamp(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

/* ---- cores of the float32 functions: double in and out, relative error below 1e-9 --------------------- */

/* e^x = scale * (1 + rest), with rest relatively exact: e^x - 1 loses nothing near 0. */
typedef struct {
    double scale, rest;
} gt_power;

/* For x = k ln 2 + r with |r| <= ln(2)/2 and shifted = GT_ROUNDER + k. The fit: (e^r - 1 - r) / r^2. */
GT_INLINE gt_power gt_wide_power(double shifted, double r)
{
    double q = 2.4882679633402917e-05;
    q = VFMA(q, r, 0.00019905073325792753);
    q = VFMA(q, r, 0.0013888808953594523);
    q = VFMA(q, r, 0.00833328879800077);
    q = VFMA(q, r, 0.04166666695705811);
    q = VFMA(q, r, 0.16666666755014348);
    q = VFMA(q, r, 0.4999999999973387);
    gt_power power = {gt_power_of_two(shifted), VFMA(q * r, r, r)};
    return power;
}

/* Beyond +-700 every float32 result is settled. */
GT_INLINE gt_power gt_wide_natural_power(double x)
{
    double inside = gt_clamp(x, -700.0, 700.0);
    double shifted = VFMA(inside, GT_LOG2_E, GT_ROUNDER);
    return gt_wide_power(shifted, VFMA(GT_ROUNDER - shifted, GT_LN2, inside));
}

GT_INLINE double gt_wide_exp(double x)
{
    gt_power e = gt_wide_natural_power(x);
    return VFMA(e.scale, e.rest, e.scale);
}

GT_INLINE double gt_wide_expm1(double x)
{
    gt_power e = gt_wide_natural_power(x);
    return VFMA(e.scale, e.rest, e.scale - 1);
}

/* log(u), u positive and normal; above_one = u - 1, perhaps more exact than u itself, is used near 1. With
 * u = 2^k m and m in [sqrt(1/2), sqrt(2)) it is k ln 2 + 2 atanh(s), s = (m - 1) / (m + 1). The fit:
 * 2 atanh(s) / s in s^2. */
GT_INLINE double gt_wide_log_near(double u, double above_one)
{
    uint64_t bits = gt_to_bits(u);
    uint64_t biased = (bits + UINT64_C(0x00195f619980c433)) >> 52; /* k + 1024 */
    double k = gt_from_bits(UINT64_C(0x4330000000000000) | biased) - (4503599627370496.0 + 1024);
    double m = gt_from_bits(bits - ((biased - 1024) << 52));
    double f = k == 0 ? above_one : m - 1;
    double s = f / (2 + f), z = s * s;
    double q = 0.2361891637568647;
    q = VFMA(q, z, 0.2853491115362049);
    q = VFMA(q, z, 0.40000387049432395);
    q = VFMA(q, z, 0.6666666523464897);
    q = VFMA(q, z, 2.000000000008467);
    return VFMA(k, GT_LN2, s * q);
}

/* The result of a logarithm of u, whatever u is, given its value for positive finite u. */
GT_INLINE double gt_wide_log_ends(double u, double inside)
{
    return u > 0 ? (u < (double)INFINITY ? inside : u) : (u == 0 ? -(double)INFINITY : (double)NAN);
}

GT_INLINE double gt_wide_log(double u) { return gt_wide_log_ends(u, gt_wide_log_near(u, u - 1)); }

/* e^-square erfcx(z) = erfc(z) for z >= 0 and square = z^2. The fit: erfcx(z) = e^(z^2) erfc(z) in
 * t = (z - 3) / (z + 3), z up to 10.5, where float32 has underflown. */
GT_INLINE double gt_wide_erfc_tail(double z, double square)
{
    double inside = z > 10.5 ? 10.5 : z;
    double t = (inside - 3) / (inside + 3);
    double q = -6.72614447093473e-06;
    q = VFMA(q, t, -9.633052425109871e-06);
    q = VFMA(q, t, 6.390064811456253e-05);
    q = VFMA(q, t, 4.329979570233932e-05);
    q = VFMA(q, t, -0.0005972442403637348);
    q = VFMA(q, t, 0.0007083248599628676);
    q = VFMA(q, t, 0.004269201868840682);
    q = VFMA(q, t, -0.02439258505970543);
    q = VFMA(q, t, 0.07166583027060097);
    q = VFMA(q, t, -0.1501159308800783);
    q = VFMA(q, t, 0.245603801896881);
    q = VFMA(q, t, -0.3262335601494974);
    q = VFMA(q, t, 0.1790011511813015);
    return gt_wide_exp(-square) * q;
}

/* atan(a / b) for 0 <= a <= b, a finite, b > 0: past tan(pi/8) as pi/4 + atan((a - b) / (a + b)). The fit:
 * atan(q) / q in q^2. */
GT_INLINE double gt_wide_octant(double a, double b)
{
    int far = a > 0.41421356237309503 * b;
    double q = (far ? a - b : a) / (far ? a + b : b), z = q * q;
    double p = 0.0471215056602983;
    p = VFMA(p, z, -0.0845876769915497);
    p = VFMA(p, z, 0.1104100654115715);
    p = VFMA(p, z, -0.14281636660989117);
    p = VFMA(p, z, 0.19999885860814723);
    p = VFMA(p, z, -0.333333321283236);
    p = VFMA(p, z, 0.9999999999791613);
    return VFMA(p, q, far ? GT_PI / 4 : 0);
}

GT_INLINE double gt_wide_atan2(double y, double x)
{
    double ax = fabs(x), ay = fabs(y);
    int swap = ay > ax;
    double lesser = swap ? ax : ay, greater = swap ? ay : ax;
    int diagonal = (lesser == (double)INFINITY) & (greater == (double)INFINITY);
    double angle = gt_wide_octant(diagonal ? 1 : lesser, (diagonal | (greater == 0)) ? 1 : greater);
    angle = swap ? GT_PI / 2 - angle : angle;
    angle = copysign(1.0, x) < 0 ? GT_PI - angle : angle;
    return copysign(angle, y);
}

/* ---- float32 ------------------------------------------------------------------------------------------ */

GT_INLINE float gt_exp_f32(float x) { return (float)gt_wide_exp(x); }

GT_INLINE float gt_exp2_f32(float x)
{
    double inside = gt_clamp(x, -1000.0, 1000.0), shifted = inside + GT_ROUNDER;
    gt_power e = gt_wide_power(shifted, (inside - (shifted - GT_ROUNDER)) * GT_LN2);
    return (float)VFMA(e.scale, e.rest, e.scale);
}

GT_INLINE float gt_expm1_f32(float x) { return x == 0 ? x : (float)gt_wide_expm1(x); }

GT_INLINE float gt_log_f32(float x) { return (float)gt_wide_log(x); }

GT_INLINE float gt_log10_f32(float x) { return (float)(gt_wide_log(x) * GT_LOG10_E); }

GT_INLINE float gt_log2_f32(float x) { return (float)(gt_wide_log(x) * GT_LOG2_E); }

/* 1 + x is exact in double or, for tiny x, not looked at. */
GT_INLINE float gt_log1p_f32(float x)
{
    double u = 1 + (double)x;
    return x == 0 ? x : (float)gt_wide_log_ends(u, gt_wide_log_near(u, x));
}

/* sinh, cosh, tanh from E = e^a - 1, a = |x|: no term is a difference of near equals. */
GT_INLINE float gt_sinh_f32(float x)
{
    double grown = gt_wide_expm1(fabsf(x));
    return copysignf((float)(0.5 * (grown + grown / (grown + 1))), x);
}

GT_INLINE float gt_cosh_f32(float x)
{
    double e = gt_wide_exp(fabsf(x));
    return (float)(0.5 * (e + 1 / e));
}

GT_INLINE float gt_tanh_f32(float x)
{
    double grown = gt_wide_expm1(2 * fabs((double)x));
    return copysignf((float)(grown / (grown + 2)), x);
}

GT_INLINE float gt_sigmoid_f32(float x) { return (float)(1 / (1 + gt_wide_exp(-(double)x))); }

/* x sigmoid(x) and x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3): (1 + tanh u) / 2 is sigmoid(2u). */
GT_INLINE float gt_silu_f32(float x)
{
    double inside = x < -1000.0f ? -1000.0 : x;
    return (float)(inside / (1 + gt_wide_exp(-inside)));
}

GT_INLINE float gt_gelu_tanh_f32(float x)
{
    double inside = x < -1000.0f ? -1000.0 : x;
    double slope = VFMA(inside * inside, 0.07135481627260025, 1.5957691216057308);
    return (float)(inside / (1 + gt_wide_exp(-slope * inside)));
}

/* log(1 + e^x) = max(x, 0) + log1p(e^-|x|). */
GT_INLINE float gt_softplus_f32(float x)
{
    double e = gt_wide_exp(-fabs((double)x));
    return (float)((x < 0 ? 0 : x) + gt_wide_log_near(1 + e, e));
}

GT_INLINE float gt_log_sigmoid_f32(float x) { return -gt_softplus_f32(-x); }

GT_INLINE float gt_erfc_f32(float x)
{
    double z = fabs((double)x), tail = gt_wide_erfc_tail(z, z * z);
    return (float)(x < 0 ? 2 - tail : tail);
}

/* The fit, for |x| < 1/2: erf(x) / x in x^2. */
GT_INLINE float gt_erf_f32(float x)
{
    double a = fabs((double)x), z = a * a;
    double q = -0.0007692525888769763;
    q = VFMA(q, z, 0.005200289815889767);
    q = VFMA(q, z, -0.02686311625987857);
    q = VFMA(q, z, 0.1128377377681288);
    q = VFMA(q, z, -0.37612638518330893);
    q = VFMA(q, z, 1.1283791670820449);
    return copysignf((float)(a < 0.5 ? a * q : 1 - gt_wide_erfc_tail(a, z)), x);
}

/* x times the normal distribution function, erfc(-x/sqrt(2)) / 2. */
GT_INLINE float gt_gelu_f32(float x)
{
    double inside = x < -40.0f ? -40.0 : x;
    double tail = 0.5 * gt_wide_erfc_tail(fabs(inside) * GT_SQRT_HALF, 0.5 * inside * inside);
    return (float)(inside * (inside < 0 ? tail : 1 - tail));
}

GT_INLINE float gt_sin_f32(float x) { return (float)sin(x); }

GT_INLINE float gt_cos_f32(float x) { return (float)cos(x); }

GT_INLINE float gt_tan_f32(float x) { return (float)tan(x); }

GT_INLINE float gt_atan_f32(float x)
{
    double a = fabs((double)x);
    int swap = a > 1;
    double angle = gt_wide_octant(swap ? 1 : a, swap ? a : 1);
    return copysignf((float)(swap ? GT_PI / 2 - angle : angle), x);
}

GT_INLINE float gt_atan2_f32(float y, float x) { return (float)gt_wide_atan2(y, x); }

GT_INLINE float gt_asin_f32(float x) { return (float)gt_wide_atan2(x, sqrt((1 - (double)x) * (1 + (double)x))); }

GT_INLINE float gt_acos_f32(float x) { return (float)gt_wide_atan2(sqrt((1 - (double)x) * (1 + (double)x)), x); }

/* An infinite side is infinite, whatever the other. */
GT_INLINE float gt_hypot_f32(float x, float y)
{
    double square = (double)x * x + (double)y * y;
    return (gt_isinf_f32(x) | gt_isinf_f32(y)) ? INFINITY : (float)sqrt(square);
}

/* e^(y log|x|), negative for negative x and odd y; the cases of C99: x^0 and 1^y are 1, also for NaN, and
 * (-1)^(+-inf) is 1. An infinite y is even. */
GT_INLINE float gt_pow_f32(float x, float y)
{
    double a = fabs((double)x), b = y;
    double size = gt_wide_exp(a == 1 ? 0 : b * gt_wide_log(a));
    int whole = trunc(b) == b, odd = whole & (trunc(0.5 * b) != 0.5 * b);
    double signed_size = odd ? copysign(size, x) : size;
    int undefined = (x < 0) & (a < (double)INFINITY) & !whole;
    return ((x == 1) | (y == 0)) ? 1 : undefined ? NAN : (float)signed_size;
}

#include "gt_math_f64.h"

#endif
