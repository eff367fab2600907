/* gt_double.h: what gt_math_f32.h and gt_math_f64.h share in double: powers of two, and for float32's pow an
 * exponential and a logarithm with a relative error below 1e-9.
 */
#ifndef GT_DOUBLE_H
#define GT_DOUBLE_H

#include "gt_scalar.h"

#define GT_LN2 0.6931471805599453
#define GT_LOG2_E 1.4426950408889634
#define GT_PI 3.141592653589793
#define GT_SQRT_HALF 0.7071067811865476

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

/* 2^k e^r for x = k ln 2 + r, |r| <= ln(2)/2; beyond +-700 every float32 result is settled. The fit:
 * (e^r - 1 - r) / r^2. */
GT_INLINE double gt_exp_double(double x)
{
    double inside = gt_clamp(x, -700.0, 700.0);
    double shifted = VFMA(inside, GT_LOG2_E, GT_ROUNDER), r = VFMA(GT_ROUNDER - shifted, GT_LN2, inside);
    double q = 2.4882679633402917e-05;
    q = VFMA(q, r, 0.00019905073325792753);
    q = VFMA(q, r, 0.0013888808953594523);
    q = VFMA(q, r, 0.00833328879800077);
    q = VFMA(q, r, 0.04166666695705811);
    q = VFMA(q, r, 0.16666666755014348);
    q = VFMA(q, r, 0.4999999999973387);
    double scale = gt_power_of_two(shifted);
    return VFMA(scale, VFMA(q * r, r, r), scale);
}

/* With u = 2^k m and m in [sqrt(1/2), sqrt(2)) it is k ln 2 + 2 atanh(s), s = (m - 1) / (m + 1). The fit:
 * 2 atanh(s) / s in s^2. For u >= 0 and normal; -infinity for 0. */
GT_INLINE double gt_log_double(double u)
{
    uint64_t bits = gt_to_bits(u);
    uint64_t biased = (bits + UINT64_C(0x00195f619980c433)) >> 52; /* k + 1024 */
    double k = gt_from_bits(UINT64_C(0x4330000000000000) | biased) - (4503599627370496.0 + 1024);
    double m = gt_from_bits(bits - ((biased - 1024) << 52));
    double s = (m - 1) / (m + 1), z = s * s;
    double q = 0.2361891637568647;
    q = VFMA(q, z, 0.2853491115362049);
    q = VFMA(q, z, 0.40000387049432395);
    q = VFMA(q, z, 0.6666666523464897);
    q = VFMA(q, z, 2.000000000008467);
    double inside = VFMA(k, GT_LN2, s * q);
    return u > 0 ? (u < (double)INFINITY ? inside : u) : (u == 0 ? -(double)INFINITY : u);
}

#endif
