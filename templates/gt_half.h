/* gt_half.h: float16 and bfloat16, which are kept in 16 bits and computed with in float.
 *
 * A variable of tag f16 or bf16 is a float (a gt_v_f32) that holds a value of that dtype, NaN's bits included; in
 * memory it is a uint16_t. So there is no arithmetic here, only:
 *
 *     gt_from_f16(bits)          the value of 16 bits, exactly
 *     gt_to_f16(a)               the 16 bits of a value that float16 has
 *     gt_cast_f32_f16(a)         the float16 nearest to a number; likewise from and to every other tag
 *     gt_where_f16(c, a, b) and gt_nextafter_f16(a, b)
 *
 * and on vectors gt_cast_v_f32_v_f16, gt_where_v_f16, gt_splat_f16, gt_load_f16, gt_store_f16 and their _part_ and
 * _upto_. Conversions round to nearest, ties to even, once; what is too large becomes infinite, what is small
 * denormal; NaN stays NaN. Integers are rounded to float first, as NumPy does. No denormal float is computed with,
 * so that flushing them changes nothing.
 */
#ifndef GT_HALF_H
#define GT_HALF_H

#include "gt_math_f32.h"

/* ---- one value ------------------------------------------------------------------------------------------ */

#define GT_SIGN 0x80000000u
#define GT_INFINITE 0x7f800000u
#define GT_QUIET 0x00400000u
#define GT_HALF_NORMAL 0x38800000u /* 2^-14: below it float16 has multiples of 2^-24, as float has beside 1/2 */
#define GT_HALF_ABOVE 0x47800000u  /* 2^16: from there on it is infinite */
#define GT_ONE_HALF 0x3f000000u

GT_INLINE float gt_from_f16(uint16_t half)
{
    uint32_t size = half & 0x7fffu, sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t small = gt_bits_f32(gt_value_f32(GT_ONE_HALF + size) - 0.5f);
    uint32_t large = (size << 13) + (size < 0x7c00u ? 0x38000000u : 0x70000000u);
    return gt_value_f32(sign | (size < 0x400u ? small : large));
}

GT_INLINE uint16_t gt_to_f16(float a)
{
    uint32_t bits = gt_bits_f32(a), size = bits & ~GT_SIGN;
    uint32_t small = gt_bits_f32(gt_value_f32(size) + 0.5f) - GT_ONE_HALF;
    uint32_t large = (size - (size < GT_INFINITE ? 0x38000000u : 0x70000000u)) >> 13;
    return (uint16_t)((bits & GT_SIGN) >> 16 | (size < GT_HALF_NORMAL ? small : large));
}

GT_INLINE float gt_cast_f32_f16(float a)
{
    uint32_t bits = gt_bits_f32(a), size = bits & ~GT_SIGN;
    uint32_t small = gt_bits_f32((gt_value_f32(size) + 0.5f) - 0.5f);
    uint32_t large = (size + 0xfffu + ((size >> 13) & 1u)) & ~0x1fffu;
    large = large < GT_HALF_ABOVE ? large : GT_INFINITE;
    large = size > GT_INFINITE ? (size & ~0x1fffu) | GT_QUIET : large;
    return gt_value_f32((bits & GT_SIGN) | (size < GT_HALF_NORMAL ? small : large));
}

GT_INLINE float gt_from_bf16(uint16_t half) { return gt_value_f32((uint32_t)half << 16); }
GT_INLINE uint16_t gt_to_bf16(float a) { return (uint16_t)(gt_bits_f32(a) >> 16); }

GT_INLINE float gt_cast_f32_bf16(float a)
{
    uint32_t bits = gt_bits_f32(a), size = bits & ~GT_SIGN;
    uint32_t near = (size + 0x7fffu + ((size >> 16) & 1u)) & 0xffff0000u;
    uint32_t nan = (size & 0xffff0000u) | GT_QUIET;
    return gt_value_f32((bits & GT_SIGN) | (size > GT_INFINITE ? nan : near));
}

/* A double rounded to so many bits fewer: `normal` and `above` are the bits of the smallest normal number and of the
 * first one that is infinite, and beside `magic` doubles are as far apart as the small numbers. */
#define GT_NARROWED(tag, fewer, normal, above, magic)                                                            \
    GT_INLINE float gt_cast_f64_##tag(double a)                                                                  \
    {                                                                                                            \
        const uint64_t one = 1, sign = one << 63;                                                                \
        uint64_t bits = gt_to_bits(a), size = bits & ~sign;                                                      \
        uint64_t small = gt_to_bits((gt_from_bits(size) + (magic)) - (magic));                                   \
        uint64_t large = (size + ((one << ((fewer)-1)) - 1) + ((size >> (fewer)) & one)) & ~((one << (fewer)) - 1); \
        large = large < (above) ? large : UINT64_C(0x7ff0000000000000);                                          \
        float rounded = (float)gt_from_bits((bits & sign) | (size < (normal) ? small : large));                  \
        return a != a ? gt_cast_f32_##tag((float)a) : rounded;                                                   \
    }

GT_NARROWED(f16, 42, UINT64_C(0x3f10000000000000), UINT64_C(0x40f0000000000000), 0x1p28)
GT_NARROWED(bf16, 45, UINT64_C(0x3810000000000000), UINT64_C(0x47f0000000000000), 0x1p-81)

#define GT_FROM_INTEGER(from, type, tag)                                                                         \
    GT_INLINE float gt_cast_##from##_##tag(type a) { return gt_cast_f32_##tag((float)a); }
#define GT_TO_OTHER(tag, to, target)                                                                             \
    GT_INLINE target gt_cast_##tag##_##to(float a) { return gt_cast_f32_##to(a); }

#define GT_CASTS_HALF(tag, other)                                                                                \
    GT_FROM_INTEGER(i8, int8_t, tag)                                                                             \
    GT_FROM_INTEGER(i16, int16_t, tag)                                                                           \
    GT_FROM_INTEGER(i32, int32_t, tag)                                                                           \
    GT_FROM_INTEGER(i64, int64_t, tag)                                                                           \
    GT_FROM_INTEGER(u8, uint8_t, tag)                                                                            \
    GT_FROM_INTEGER(u16, uint16_t, tag)                                                                          \
    GT_FROM_INTEGER(u32, uint32_t, tag)                                                                          \
    GT_FROM_INTEGER(u64, uint64_t, tag)                                                                          \
    GT_FROM_INTEGER(b1, int, tag)                                                                                \
    GT_TO_OTHER(tag, i8, int8_t)                                                                                 \
    GT_TO_OTHER(tag, i16, int16_t)                                                                               \
    GT_TO_OTHER(tag, i32, int32_t)                                                                               \
    GT_TO_OTHER(tag, i64, int64_t)                                                                               \
    GT_TO_OTHER(tag, u8, uint8_t)                                                                                \
    GT_TO_OTHER(tag, u16, uint16_t)                                                                              \
    GT_TO_OTHER(tag, u32, uint32_t)                                                                              \
    GT_TO_OTHER(tag, u64, uint64_t)                                                                              \
    GT_TO_OTHER(tag, b1, int)                                                                                    \
    GT_TO_OTHER(tag, f32, float)                                                                                 \
    GT_TO_OTHER(tag, f64, double)                                                                                \
    GT_TO_OTHER(tag, other, float)                                                                               \
    GT_INLINE float gt_cast_##tag##_##tag(float a) { return a; }                                                 \
    GT_INLINE float gt_where_##tag(int c, float a, float b) { return c ? a : b; }

GT_CASTS_HALF(f16, bf16)
GT_CASTS_HALF(bf16, f16)

/* Of numbers of one sign, the next one up in size has the next bits. */
#define GT_NEXT(tag)                                                                                             \
    GT_INLINE float gt_nextafter_##tag(float a, float b)                                                         \
    {                                                                                                            \
        uint16_t bits = gt_to_##tag(a), zero = (bits & 0x7fff) == 0;                                             \
        uint16_t away = (uint16_t)(bits + ((a < b) == (a > 0) ? 1 : -1));                                        \
        uint16_t next = zero ? (uint16_t)(b < 0 ? 0x8001 : 1) : away;                                            \
        return (a != a || b != b) ? a + b : a == b ? b : gt_from_##tag(next);                                    \
    }

GT_NEXT(f16)
GT_NEXT(bf16)

/* ---- vectors -------------------------------------------------------------------------------------------- */

#ifdef GT_WIDTH

typedef gt_v_f32 gt_v_f16;
typedef gt_v_f32 gt_v_bf16;
typedef uint16_t gt_v_u16 __attribute__((vector_size(2 * GT_LANES)));
typedef uint16_t gt_any_u16 __attribute__((vector_size(2 * GT_LANES), aligned(2), may_alias));

/* c ? a : b where the lanes of c are -1 or 0. */
GT_INLINE gt_v_u32 gt_choose_u32(gt_v_i32 c, gt_v_u32 a, gt_v_u32 b)
{
    return ((gt_v_u32)c & a) | (~(gt_v_u32)c & b);
}

/* The instructions for float16 give the same values (a signalling NaN becomes a quiet one). */
typedef short gt_shorts __attribute__((vector_size(2 * GT_LANES)));
#if GT_WIDTH == 64 && defined(__AVX512F__) && GT_X86(vcvtph2ps512_mask) && GT_X86(vcvtps2ph512_mask)
#define GT_WIDE(half)                                                                                            \
    (gt_v_f32) __builtin_ia32_vcvtph2ps512_mask((gt_shorts)(half), gt_splat_f32(0), GT_ALL_LANES, GT_CURRENT_ROUNDING)
#define GT_NARROW(a) (gt_v_u16) __builtin_ia32_vcvtps2ph512_mask(a, 0, (gt_shorts){0}, GT_ALL_LANES)
#elif GT_WIDTH == 32 && defined(__F16C__) && GT_X86(vcvtph2ps256) && GT_X86(vcvtps2ph256)
#define GT_WIDE(half) (gt_v_f32) __builtin_ia32_vcvtph2ps256((gt_shorts)(half))
#define GT_NARROW(a) (gt_v_u16) __builtin_ia32_vcvtps2ph256(a, 0)
#endif

#if defined(GT_WIDE)
GT_INLINE gt_v_f32 gt_wide_f16(gt_v_u16 half) { return GT_WIDE(half); }
GT_INLINE gt_v_u16 gt_narrow_f16(gt_v_f32 a) { return GT_NARROW(a); }
GT_INLINE gt_v_f32 gt_cast_v_f32_v_f16(gt_v_f32 a) { return GT_WIDE(GT_NARROW(a)); }
#else
GT_INLINE gt_v_f32 gt_wide_f16(gt_v_u16 half)
{
    gt_v_u32 bits = __builtin_convertvector(half, gt_v_u32), size = bits & 0x7fffu;
    gt_v_u32 small = (gt_v_u32)((gt_v_f32)(size + GT_ONE_HALF) - 0.5f);
    gt_v_u32 more = gt_choose_u32(size < 0x7c00u, (gt_v_u32){0} + 0x38000000u, (gt_v_u32){0} + 0x70000000u);
    return (gt_v_f32)((bits & 0x8000u) << 16 | gt_choose_u32(size < 0x400u, small, (size << 13) + more));
}

GT_INLINE gt_v_u16 gt_narrow_f16(gt_v_f32 a)
{
    gt_v_u32 bits = (gt_v_u32)a, size = bits & ~GT_SIGN;
    gt_v_u32 small = (gt_v_u32)((gt_v_f32)size + 0.5f) - GT_ONE_HALF;
    gt_v_u32 less = gt_choose_u32(size < GT_INFINITE, (gt_v_u32){0} + 0x38000000u, (gt_v_u32){0} + 0x70000000u);
    gt_v_u32 half = (bits & GT_SIGN) >> 16 | gt_choose_u32(size < GT_HALF_NORMAL, small, (size - less) >> 13);
    return __builtin_convertvector(half, gt_v_u16);
}

GT_INLINE gt_v_f32 gt_cast_v_f32_v_f16(gt_v_f32 a)
{
    gt_v_u32 bits = (gt_v_u32)a, size = bits & ~GT_SIGN, infinite = (gt_v_u32){0} + GT_INFINITE;
    gt_v_u32 small = (gt_v_u32)(((gt_v_f32)size + 0.5f) - 0.5f);
    gt_v_u32 large = (size + 0xfffu + ((size >> 13) & 1u)) & ~0x1fffu;
    large = gt_choose_u32(large < GT_HALF_ABOVE, large, infinite);
    large = gt_choose_u32(size > GT_INFINITE, (size & ~0x1fffu) | GT_QUIET, large);
    return (gt_v_f32)((bits & GT_SIGN) | gt_choose_u32(size < GT_HALF_NORMAL, small, large));
}
#endif

GT_INLINE gt_v_f32 gt_wide_bf16(gt_v_u16 half)
{
    return (gt_v_f32)(__builtin_convertvector(half, gt_v_u32) << 16);
}
GT_INLINE gt_v_u16 gt_narrow_bf16(gt_v_f32 a) { return __builtin_convertvector((gt_v_u32)a >> 16, gt_v_u16); }

GT_INLINE gt_v_f32 gt_cast_v_f32_v_bf16(gt_v_f32 a)
{
    gt_v_u32 bits = (gt_v_u32)a, size = bits & ~GT_SIGN;
    gt_v_u32 near = (size + 0x7fffu + ((size >> 16) & 1u)) & 0xffff0000u;
    gt_v_u32 nan = (size & 0xffff0000u) | GT_QUIET;
    return (gt_v_f32)((bits & GT_SIGN) | gt_choose_u32(size > GT_INFINITE, nan, near));
}

#define GT_HALVES(tag, other)                                                                                    \
    GT_INLINE gt_v_f32 gt_splat_##tag(float s) { return gt_splat_f32(s); }                                       \
    GT_INLINE gt_v_f32 gt_load_##tag(const uint16_t *p) { return gt_wide_##tag(*(const gt_any_u16 *)p); }        \
    GT_INLINE void gt_store_##tag(uint16_t *p, gt_v_f32 v) { *(gt_any_u16 *)p = gt_narrow_##tag(v); }            \
    GT_APART gt_v_f32 gt_load_part_##tag(const uint16_t *p, int64_t rest)                                       \
    {                                                                                                            \
        uint16_t lane[GT_LANES] = {0};                                                                           \
        for (int l = 0; l < GT_LANES && l < rest; l++)                                                           \
            lane[l] = p[l];                                                                                      \
        return gt_load_##tag(lane);                                                                              \
    }                                                                                                            \
    GT_APART void gt_store_part_##tag(uint16_t *p, gt_v_f32 v, int64_t rest)                                    \
    {                                                                                                            \
        uint16_t lane[GT_LANES];                                                                                 \
        gt_store_##tag(lane, v);                                                                                 \
        for (int l = 0; l < GT_LANES && l < rest; l++)                                                           \
            p[l] = lane[l];                                                                                      \
    }                                                                                                            \
    GT_UPTO(tag, uint16_t)                                                                                       \
    GT_INLINE gt_v_f32 gt_where_v_##tag(gt_v_b1 m, gt_v_f32 a, gt_v_f32 b) { return gt_where_v_f32(m, a, b); }   \
    GT_INLINE gt_v_f32 gt_cast_v_##tag##_v_f32(gt_v_f32 a) { return a; }                                         \
    GT_INLINE gt_v_f32 gt_cast_v_##tag##_v_##other(gt_v_f32 a) { return gt_cast_v_f32_v_##other(a); }            \
    GT_INLINE gt_v_i32 gt_cast_v_##tag##_v_i32(gt_v_f32 a) { return gt_cast_v_f32_v_i32(a); }                    \
    GT_INLINE gt_v_b1 gt_cast_v_##tag##_v_b1(gt_v_f32 a) { return a != 0; }                                      \
    GT_INLINE gt_v_f32 gt_cast_v_i32_v_##tag(gt_v_i32 a)                                                         \
    {                                                                                                            \
        return gt_cast_v_f32_v_##tag(gt_cast_v_i32_v_f32(a));                                                    \
    }                                                                                                            \
    GT_INLINE gt_v_f32 gt_cast_v_b1_v_##tag(gt_v_b1 m) { return gt_cast_v_b1_v_f32(m); }

GT_HALVES(f16, bf16)
GT_HALVES(bf16, f16)

#endif

#endif
