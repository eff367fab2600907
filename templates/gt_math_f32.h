/* gt_math_f32.h: the float32 half of gt_math.h, which says what holds of it.
 *
 * The functions are written once, in gt_exp_f32.h, gt_log_f32.h, gt_trig_f32.h and gt_erf_f32.h, in terms of the
 * macros below. These files are included here twice: for one float (gt_exp_f32) and, where GT_WIDTH is defined, for
 * a vector of them (gt_exp_v_f32). Operation by operation both are the same, and so are the results:
 *
 *     GT_V GT_U GT_I          the value, and as many uint32_t and int32_t
 *     GT_F(name)              gt_<name>_f32 or gt_<name>_v_f32, also for helpers and their types
 *     GT_C(1.0f)              a constant as an argument; at an operator the plain number serves
 *     GT_IS(a < b)            a comparison as a mask, -1 or 0, for & | ~ and GT_F(where)
 *     GT_ANY(mask)            whether a lane of the mask is true
 *     GT_BITS GT_VALUE        the bits of a value, the value of bits
 *     GT_NUMBER(i)            integers as values
 *     GT_PER GT_LANE(v, l)    the number of lanes, and lane l
 *
 * Arithmetic on bits is unsigned: it wraps.
 */
#ifndef GT_MATH_F32_H
#define GT_MATH_F32_H

#include "gt_double.h"
#include "gt_scalar.h"
#ifdef GT_WIDTH
#include "gt_vector.h"
#endif

/* ---- of one float only ---------------------------------------------------------------------------------- */

GT_INLINE uint32_t gt_bits_f32(float value)
{
    union {
        float value;
        uint32_t bits;
    } u = {value};
    return u.bits;
}

GT_INLINE float gt_value_f32(uint32_t bits)
{
    union {
        uint32_t bits;
        float value;
    } u = {bits};
    return u.value;
}

GT_INLINE float gt_copysign_f32(float size, float sign) { return copysignf(size, sign); }

/* Both keep NaN. */
GT_INLINE float gt_at_least_f32(float x, float low) { return low > x ? low : x; }
GT_INLINE float gt_at_most_f32(float x, float high) { return high < x ? high : x; }

/* The quadrant, hi and lo of gt_angle_f32 for |x| >= 1, after Payne and Hanek: x 2/pi modulo 4 as a fraction of 64
 * bits, from the 24 bits of x and those 96 of 2/pi that matter. NaN for what is not finite. */
GT_APART uint32_t gt_far_angle(float x, float *hi, float *lo)
{
    static const uint32_t two_over_pi[] = {
        0x00000000, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab,
    };
    uint32_t bits = gt_bits_f32(x), biased = (bits >> 23) & 255;
    if (biased == 255) {
        *hi = *lo = NAN;
        return 0;
    }
    uint32_t place = biased - 120;
    uint64_t mantissa = (bits & 0x7fffff) | 0x800000, window[3];
    for (int i = 0; i < 3; i++) {
        const uint32_t *word = two_over_pi + place / 32 + i;
        window[i] = (uint32_t)(((uint64_t)word[0] << 32 | word[1]) << place % 32 >> 32);
    }
    uint64_t turns = (mantissa * window[0] << 32) + mantissa * window[1] + (mantissa * window[2] >> 32);
    uint64_t quadrant = (turns + (UINT64_C(1) << 61)) >> 62;
    double r = (double)(int64_t)(turns - (quadrant << 62)) * (0.5 * GT_PI / 4611686018427387904.0);
    r = x < 0 ? -r : r;
    *hi = (float)r;
    *lo = (float)(r - *hi);
    return (uint32_t)(x < 0 ? 4 - quadrant : quadrant);
}

/* x^y = e^(y log|x|) in double, where y log|x| is exact enough; negative for negative x and odd y; the cases of C99:
 * x^0 and 1^y are 1, also for NaN, and (-1)^(+-inf) is 1. An infinite y is even. */
GT_INLINE float gt_pow_f32(float x, float y)
{
    double a = fabs((double)x), b = y;
    double size = gt_exp_double(a == 1 ? 0 : b * gt_log_double(a));
    int whole = trunc(b) == b, odd = whole & (trunc(0.5 * b) != 0.5 * b);
    double signed_size = odd ? copysign(size, x) : size;
    int undefined = (x < 0) & (a < (double)INFINITY) & !whole;
    return ((x == 1) | (y == 0)) ? 1 : undefined ? NAN : (float)signed_size;
}

/* ---- one float ------------------------------------------------------------------------------------------ */

#define GT_V float
#define GT_U uint32_t
#define GT_I int32_t
#define GT_F(name) gt_##name##_f32
#define GT_C(constant) (constant)
#define GT_IS(condition) ((condition) ? -1 : 0)
#define GT_ANY(mask) (mask)
#define GT_BITS(value) gt_bits_f32(value)
#define GT_VALUE(bits) gt_value_f32(bits)
#define GT_NUMBER(integers) ((float)(integers))
#define GT_PER 1
#define GT_LANE(v, l) (v)

#include "gt_exp_f32.h"
#include "gt_log_f32.h"
#include "gt_trig_f32.h"
#include "gt_erf_f32.h"

#undef GT_V
#undef GT_U
#undef GT_I
#undef GT_F
#undef GT_C
#undef GT_IS
#undef GT_ANY
#undef GT_BITS
#undef GT_VALUE
#undef GT_NUMBER
#undef GT_PER
#undef GT_LANE

/* ---- a vector ------------------------------------------------------------------------------------------- */

#ifdef GT_WIDTH

#define GT_V gt_v_f32
#define GT_U gt_v_u32
#define GT_I gt_v_i32
#define GT_F(name) gt_##name##_v_f32
#define GT_C(constant) gt_splat_f32(constant)
#define GT_IS(condition) (condition)
#define GT_ANY(mask) gt_any_v_b1(mask)
#define GT_BITS(value) ((gt_v_u32)(value))
#define GT_VALUE(bits) ((gt_v_f32)(bits))
#define GT_NUMBER(integers) __builtin_convertvector(integers, gt_v_f32)
#define GT_PER GT_LANES
#define GT_LANE(v, l) (v)[l]

#include "gt_exp_f32.h"
#include "gt_log_f32.h"
#include "gt_trig_f32.h"
#include "gt_erf_f32.h"

GT_LANEWISE_2(pow, f32, float)

#undef GT_V
#undef GT_U
#undef GT_I
#undef GT_F
#undef GT_C
#undef GT_IS
#undef GT_ANY
#undef GT_BITS
#undef GT_VALUE
#undef GT_NUMBER
#undef GT_PER
#undef GT_LANE

#endif
#endif
