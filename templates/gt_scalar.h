/* gt_scalar.h: the exact scalar operations of generated code, one meaning on every machine.
 *
 * A function is called gt_<operation>_<tag>. The tags are f32 f64, i8 i16 i32 i64, u8 u16 u32 u64 and b1; a
 * b1 is an int that holds 0 or 1 (in memory: a byte), and comparisons and tests give one. The results are NumPy's, bit
 * for bit, except where noted; nothing here traps and nothing is undefined:
 *
 * - integers wrap; their division and remainder floor, as in Python, and give 0 when the divisor is 0;
 *   shifts by a negative or too large count give 0, or -1 for a right shift of a negative number;
 * - casts from floats to integers truncate, saturate, and send NaN to 0; between integers they wrap;
 * - max and min give NaN when either operand is NaN, and the second operand when both are equal:
 *   max(-0, +0) is +0 and max(+0, -0) is -0, as in NumPy.
 *
 * Rounding law: compile with -ffp-contract=off, and never with -ffast-math. A fused multiply-add
 * happens where VFMA or gt_fma is written, and nowhere else.
 */
#ifndef GT_SCALAR_H
#define GT_SCALAR_H

#include <stdint.h>

#include "gt_libc.h"

/* Inlined whatever the compiler's size estimates say: a call left in a loop keeps it from being vectorised. What is
 * called rarely stands apart. */
#if defined(__GNUC__)
#define GT_INLINE static inline __attribute__((always_inline, unused))
#define GT_APART static __attribute__((noinline, unused))
#else
#define GT_INLINE static inline
#define GT_APART static
#endif

/* ---- comparison and selection ------------------------------------------------------------------------ */

#define GT_COMPARE(tag, type)                                                                                    \
    GT_INLINE int gt_eq_##tag(type a, type b) { return a == b; }                                                 \
    GT_INLINE int gt_ne_##tag(type a, type b) { return a != b; }                                                 \
    GT_INLINE int gt_lt_##tag(type a, type b) { return a < b; }                                                  \
    GT_INLINE int gt_le_##tag(type a, type b) { return a <= b; }                                                 \
    GT_INLINE int gt_gt_##tag(type a, type b) { return a > b; }                                                  \
    GT_INLINE int gt_ge_##tag(type a, type b) { return a >= b; }                                                 \
    GT_INLINE type gt_where_##tag(int c, type a, type b) { return c ? a : b; }

GT_COMPARE(f32, float)
GT_COMPARE(f64, double)
GT_COMPARE(i8, int8_t)
GT_COMPARE(i16, int16_t)
GT_COMPARE(i32, int32_t)
GT_COMPARE(i64, int64_t)
GT_COMPARE(u8, uint8_t)
GT_COMPARE(u16, uint16_t)
GT_COMPARE(u32, uint32_t)
GT_COMPARE(u64, uint64_t)
GT_COMPARE(b1, int)

/* argmax and argmin say whether a candidate takes the place of the best so far: it must be strictly
 * better, so the first of equals stays, and a NaN beats every number but not an earlier NaN. */
#define GT_ORDER(tag, type)                                                                                      \
    GT_INLINE type gt_max_##tag(type a, type b) { return a > b ? a : b; }                                        \
    GT_INLINE type gt_min_##tag(type a, type b) { return a < b ? a : b; }                                        \
    GT_INLINE int gt_argmax_##tag(type candidate, type best) { return candidate > best; }                        \
    GT_INLINE int gt_argmin_##tag(type candidate, type best) { return candidate < best; }

#define GT_ORDER_NAN(tag, type)                                                                                  \
    GT_INLINE int gt_isnan_##tag(type a) { return a != a; }                                                      \
    GT_INLINE type gt_max_##tag(type a, type b) { return ((a > b) | (a != a)) ? a : b; }                         \
    GT_INLINE type gt_min_##tag(type a, type b) { return ((a < b) | (a != a)) ? a : b; }                         \
    GT_INLINE int gt_argmax_##tag(type candidate, type best)                                                     \
    {                                                                                                            \
        return (candidate > best) | ((candidate != candidate) & (best == best));                                 \
    }                                                                                                            \
    GT_INLINE int gt_argmin_##tag(type candidate, type best)                                                     \
    {                                                                                                            \
        return (candidate < best) | ((candidate != candidate) & (best == best));                                 \
    }

GT_ORDER_NAN(f32, float)
GT_ORDER_NAN(f64, double)
GT_ORDER(i8, int8_t)
GT_ORDER(i16, int16_t)
GT_ORDER(i32, int32_t)
GT_ORDER(i64, int64_t)
GT_ORDER(u8, uint8_t)
GT_ORDER(u16, uint16_t)
GT_ORDER(u32, uint32_t)
GT_ORDER(u64, uint64_t)
GT_ORDER(b1, int)

/* ---- integers ---------------------------------------------------------------------------------------- */

/* What signed and unsigned integers share. `wide` is an unsigned type no narrower than `type` or unsigned
 * int: arithmetic in it wraps, and promotion cannot turn it into a signed type. */
#define GT_INTEGER(tag, type, wide, bits)                                                                        \
    GT_INLINE type gt_add_##tag(type a, type b) { return (type)((wide)a + (wide)b); }                            \
    GT_INLINE type gt_sub_##tag(type a, type b) { return (type)((wide)a - (wide)b); }                            \
    GT_INLINE type gt_mul_##tag(type a, type b) { return (type)((wide)a * (wide)b); }                            \
    GT_INLINE type gt_neg_##tag(type a) { return (type)((wide)0 - (wide)a); }                                    \
    GT_INLINE type gt_square_##tag(type a) { return (type)((wide)a * (wide)a); }                                 \
    GT_INLINE type gt_and_##tag(type a, type b) { return (type)(a & b); }                                        \
    GT_INLINE type gt_or_##tag(type a, type b) { return (type)(a | b); }                                         \
    GT_INLINE type gt_xor_##tag(type a, type b) { return (type)(a ^ b); }                                        \
    GT_INLINE type gt_not_##tag(type a) { return (type)~a; }                                                     \
    GT_INLINE type gt_shift_left_##tag(type a, type n)                                                           \
    {                                                                                                            \
        wide moved = (wide)a << ((wide)n & (wide)((bits)-1));                                                    \
        return (type)((wide)n < (wide)(bits) ? moved : 0);                                                       \
    }                                                                                                            \
    GT_INLINE type gt_whole_power_##tag(type base, wide n)                                                       \
    {                                                                                                            \
        wide power = 1, factor = (wide)base;                                                                     \
        for (; n; n >>= 1, factor *= factor)                                                                     \
            power *= n & 1 ? factor : 1;                                                                         \
        return (type)power;                                                                                      \
    }

/* Signed division: a divisor of 0, and the -1 under which the smallest integer overflows, become 1. The
 * quotient by 1 and the remainder 0 are then what wrapping asks for; the quotient by 0 is put to 0.
 *
 * A negative exponent, which NumPy refuses, gives the true power cut towards 0: 1 and -1 have powers 1
 * and +-1, everything else gives 0 (0 too, as division by 0 does). */
#define GT_SIGNED(tag, type, wide, bits, lowest)                                                                  \
    GT_INLINE type gt_abs_##tag(type a) { return a < 0 ? gt_neg_##tag(a) : a; }                                  \
    GT_INLINE type gt_sign_##tag(type a) { return (type)((a > 0) - (a < 0)); }                                   \
    GT_INLINE type gt_shift_right_##tag(type a, type n)                                                          \
    {                                                                                                            \
        return (type)(a >> ((wide)n < (wide)(bits) ? (wide)n : (wide)((bits)-1)));                               \
    }                                                                                                            \
    GT_INLINE type gt_safe_divisor_##tag(type a, type b)                                                         \
    {                                                                                                            \
        return ((b == 0) | ((a == (lowest)) & (b == -1))) ? 1 : b;                                               \
    }                                                                                                            \
    GT_INLINE type gt_floor_divide_##tag(type a, type b)                                                         \
    {                                                                                                            \
        type divisor = gt_safe_divisor_##tag(a, b);                                                              \
        type quotient = (type)(a / divisor), rest = (type)(a % divisor);                                         \
        return b == 0 ? 0 : (type)(quotient - ((rest != 0) & ((rest ^ divisor) < 0)));                           \
    }                                                                                                            \
    GT_INLINE type gt_remainder_##tag(type a, type b)                                                            \
    {                                                                                                            \
        type divisor = gt_safe_divisor_##tag(a, b);                                                              \
        type rest = (type)(a % divisor);                                                                         \
        return ((rest != 0) & ((rest ^ divisor) < 0)) ? (type)(rest + divisor) : rest;                           \
    }                                                                                                            \
    GT_INLINE type gt_fmod_##tag(type a, type b) { return (type)(a % gt_safe_divisor_##tag(a, b)); }             \
    GT_INLINE type gt_pow_##tag(type a, type n)                                                                  \
    {                                                                                                            \
        type truncated = (type)(a == 1 ? 1 : a == -1 ? 1 - 2 * (n & 1) : 0);                                     \
        return n < 0 ? truncated : gt_whole_power_##tag(a, (wide)n);                                             \
    }

#define GT_UNSIGNED(tag, type, wide, bits)                                                                        \
    GT_INLINE type gt_abs_##tag(type a) { return a; }                                                            \
    GT_INLINE type gt_sign_##tag(type a) { return a != 0; }                                                      \
    GT_INLINE type gt_shift_right_##tag(type a, type n) { return (type)(n < (bits) ? a >> (n & ((bits)-1)) : 0); } \
    GT_INLINE type gt_floor_divide_##tag(type a, type b) { return (type)(b == 0 ? 0 : a / (b == 0 ? 1 : b)); }   \
    GT_INLINE type gt_remainder_##tag(type a, type b) { return (type)(b == 0 ? 0 : a % (b == 0 ? 1 : b)); }      \
    GT_INLINE type gt_fmod_##tag(type a, type b) { return gt_remainder_##tag(a, b); }                            \
    GT_INLINE type gt_pow_##tag(type a, type n) { return gt_whole_power_##tag(a, (wide)n); }

GT_INTEGER(i8, int8_t, uint32_t, 8)
GT_INTEGER(i16, int16_t, uint32_t, 16)
GT_INTEGER(i32, int32_t, uint32_t, 32)
GT_INTEGER(i64, int64_t, uint64_t, 64)
GT_INTEGER(u8, uint8_t, uint32_t, 8)
GT_INTEGER(u16, uint16_t, uint32_t, 16)
GT_INTEGER(u32, uint32_t, uint32_t, 32)
GT_INTEGER(u64, uint64_t, uint64_t, 64)
GT_SIGNED(i8, int8_t, uint32_t, 8, INT8_MIN)
GT_SIGNED(i16, int16_t, uint32_t, 16, INT16_MIN)
GT_SIGNED(i32, int32_t, uint32_t, 32, INT32_MIN)
GT_SIGNED(i64, int64_t, uint64_t, 64, INT64_MIN)
GT_UNSIGNED(u8, uint8_t, uint32_t, 8)
GT_UNSIGNED(u16, uint16_t, uint32_t, 16)
GT_UNSIGNED(u32, uint32_t, uint32_t, 32)
GT_UNSIGNED(u64, uint64_t, uint64_t, 64)

/* ---- booleans: sum is "or", product is "and", as in NumPy -------------------------------------------- */

GT_INLINE int gt_add_b1(int a, int b) { return a | b; }
GT_INLINE int gt_mul_b1(int a, int b) { return a & b; }
GT_INLINE int gt_and_b1(int a, int b) { return a & b; }
GT_INLINE int gt_or_b1(int a, int b) { return a | b; }
GT_INLINE int gt_xor_b1(int a, int b) { return a ^ b; }
GT_INLINE int gt_not_b1(int a) { return a ^ 1; }

/* ---- fused multiply-add ------------------------------------------------------------------------------ */

/* VFMA(a, b, c) is a*b + c rounded once where the target has the instruction, else rounded twice. It takes
 * float, double, and vectors of them (vector_size) of any width the target has registers for; gt_fma_f32 and
 * gt_fma_f64 are the same for scalars. The vector forms name the compiler's builtins, since <immintrin.h>
 * alone would take longer to compile than most models. With GT_PLAIN it is C99 and rounded twice on every machine. */
#if defined(__has_builtin)
#define GT_HAS_BUILTIN(name) __has_builtin(name)
#else
#define GT_HAS_BUILTIN(name) 0
#endif

#if defined(__GNUC__) && !defined(GT_PLAIN) && (defined(__FMA__) || defined(__aarch64__))

#define GT_VECTOR_FMA(name, type, bytes, fused)                                                                  \
    typedef type gt_##name __attribute__((vector_size(bytes)));                                                  \
    GT_INLINE gt_##name gt_fma_##name(gt_##name a, gt_##name b, gt_##name c) { return (gt_##name)fused; }

#if GT_HAS_BUILTIN(__builtin_elementwise_fma)
#define GT_FMA_128(form, a, b, c) __builtin_elementwise_fma(a, b, c)
#define GT_FMA_256(form, a, b, c) __builtin_elementwise_fma(a, b, c)
#define GT_FMA_512(form, a, b, c) __builtin_elementwise_fma(a, b, c)
#elif defined(__FMA__)
#define GT_FMA_128(form, a, b, c) __builtin_ia32_vfmaddp##form(a, b, c)
#define GT_FMA_256(form, a, b, c) __builtin_ia32_vfmaddp##form##256(a, b, c)
#define GT_FMA_512(form, a, b, c) __builtin_ia32_vfmaddp##form##512_mask(a, b, c, GT_LANES_##form, 4)
#define GT_LANES_s (short)-1 /* all lanes; 4 asks for the rounding mode in force */
#define GT_LANES_d (unsigned char)-1
#else
#include <arm_neon.h>
#define GT_FMA_128(form, a, b, c) GT_NEON_##form(a, b, c)
#define GT_NEON_s(a, b, c) vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b))
#define GT_NEON_d(a, b, c) vfmaq_f64((float64x2_t)(c), (float64x2_t)(a), (float64x2_t)(b))
#endif

GT_VECTOR_FMA(f32x4, float, 16, GT_FMA_128(s, a, b, c))
GT_VECTOR_FMA(f64x2, double, 16, GT_FMA_128(d, a, b, c))
#if defined(__FMA__)
GT_VECTOR_FMA(f32x8, float, 32, GT_FMA_256(s, a, b, c))
GT_VECTOR_FMA(f64x4, double, 32, GT_FMA_256(d, a, b, c))
#define GT_CASES_256 gt_f32x8 : gt_fma_f32x8, gt_f64x4 : gt_fma_f64x4,
#else
#define GT_CASES_256
#endif
#if defined(__AVX512F__)
GT_VECTOR_FMA(f32x16, float, 64, GT_FMA_512(s, a, b, c))
GT_VECTOR_FMA(f64x8, double, 64, GT_FMA_512(d, a, b, c))
#define GT_CASES_512 gt_f32x16 : gt_fma_f32x16, gt_f64x8 : gt_fma_f64x8,
#else
#define GT_CASES_512
#endif

GT_INLINE float gt_fma_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
GT_INLINE double gt_fma_f64(double a, double b, double c) { return __builtin_fma(a, b, c); }

#define VFMA(a, b, c)                                                                                            \
    _Generic((a), GT_CASES_256 GT_CASES_512 gt_f32x4 : gt_fma_f32x4, gt_f64x2 : gt_fma_f64x2,                    \
             float : gt_fma_f32, double : gt_fma_f64)(a, b, c)
#define GT_FUSED 1

#else

GT_INLINE float gt_fma_f32(float a, float b, float c) { return a * b + c; }
GT_INLINE double gt_fma_f64(double a, double b, double c) { return a * b + c; }

#define VFMA(a, b, c) ((a) * (b) + (c))
#define GT_FUSED 0

#endif

/* ---- floats ------------------------------------------------------------------------------------------ */

/* `f` is the suffix of the C library's names for the type. floor_divide and remainder follow NumPy step by
 * step: the remainder has the divisor's sign, also when it is zero, and the quotient is the whole number
 * nearest to (a - remainder) / b. */
#define GT_FLOAT(tag, type, f)                                                                                   \
    GT_INLINE type gt_add_##tag(type a, type b) { return a + b; }                                                \
    GT_INLINE type gt_sub_##tag(type a, type b) { return a - b; }                                                \
    GT_INLINE type gt_mul_##tag(type a, type b) { return a * b; }                                                \
    GT_INLINE type gt_div_##tag(type a, type b) { return a / b; }                                                \
    GT_INLINE type gt_neg_##tag(type a) { return -a; }                                                           \
    GT_INLINE type gt_abs_##tag(type a) { return fabs##f(a); }                                                   \
    GT_INLINE type gt_square_##tag(type a) { return a * a; }                                                     \
    GT_INLINE type gt_sqrt_##tag(type a) { return sqrt##f(a); }                                                  \
    GT_INLINE type gt_reciprocal_##tag(type a) { return 1 / a; }                                                 \
    GT_INLINE type gt_rsqrt_##tag(type a) { return 1 / sqrt##f(a); }                                             \
    GT_INLINE type gt_floor_##tag(type a) { return floor##f(a); }                                                \
    GT_INLINE type gt_ceil_##tag(type a) { return ceil##f(a); }                                                  \
    GT_INLINE type gt_trunc_##tag(type a) { return trunc##f(a); }                                                \
    GT_INLINE type gt_round_##tag(type a) { return rint##f(a); } /* half to even */                              \
    GT_INLINE int gt_isinf_##tag(type a) { return fabs##f(a) == (type)INFINITY; }                                \
    GT_INLINE int gt_isfinite_##tag(type a) { return fabs##f(a) < (type)INFINITY; }                              \
    GT_INLINE int gt_signbit_##tag(type a) { return signbit(a) != 0; }                                           \
    GT_INLINE type gt_nextafter_##tag(type a, type b) { return nextafter##f(a, b); }                             \
    GT_INLINE type gt_fmod_##tag(type a, type b) { return fmod##f(a, b); }                                       \
    GT_INLINE type gt_sign_##tag(type a) { return a != a ? a : (type)((a > 0) - (a < 0)); }                      \
    GT_INLINE type gt_remainder_##tag(type a, type b)                                                            \
    {                                                                                                            \
        type rest = fmod##f(a, b);                                                                               \
        type moved = (rest < 0) != (b < 0) ? rest + b : rest;                                                    \
        return b == 0 ? rest : rest == 0 ? copysign##f(0, b) : moved;                                            \
    }                                                                                                            \
    GT_INLINE type gt_floor_divide_##tag(type a, type b)                                                         \
    {                                                                                                            \
        type rest = fmod##f(a, b), ratio = a / b;                                                                \
        type exact = (a - rest) / b - (type)((rest != 0) & ((rest < 0) != (b < 0)));                             \
        type whole = floor##f(exact);                                                                            \
        type nearest = exact - whole > (type)0.5 ? whole + 1 : whole;                                            \
        return b == 0 ? ratio : exact == 0 ? copysign##f(0, ratio) : nearest;                                    \
    }

GT_FLOAT(f32, float, f)
GT_FLOAT(f64, double, )

/* ---- indices: counted from the front, given -n <= i < n ---------------------------------------------- */

GT_INLINE int32_t gt_wrap_i32(int32_t i, int32_t n) { return i < 0 ? i + n : i; }
GT_INLINE int64_t gt_wrap_i64(int64_t i, int64_t n) { return i < 0 ? i + n : i; }

/* Indices of the other dtypes as int64_t; what is too large for it stays out of any range. */
GT_INLINE int64_t gt_index_i8(int8_t i) { return i; }
GT_INLINE int64_t gt_index_i16(int16_t i) { return i; }
GT_INLINE int64_t gt_index_u8(uint8_t i) { return i; }
GT_INLINE int64_t gt_index_u16(uint16_t i) { return i; }
GT_INLINE int64_t gt_index_u32(uint32_t i) { return i; }
GT_INLINE int64_t gt_index_u64(uint64_t i) { return i < INT64_MAX ? (int64_t)i : INT64_MAX; }

/* ---- casts: gt_cast_<from>_<to>, all pairs ------------------------------------------------------------ */

#define GT_CAST(from, type, to, target)                                                                          \
    GT_INLINE target gt_cast_##from##_##to(type a) { return (target)a; }

/* Only values inside the target's range are converted. `above` is the first whole number over it. */
#define GT_CAST_SATURATE(from, type, to, target, lowest, highest, above)                                         \
    GT_INLINE target gt_cast_##from##_##to(type a)                                                               \
    {                                                                                                            \
        int fits = (a >= (type)(lowest)) & (a < (type)(above));                                                  \
        target inside = (target)(fits ? a : 0);                                                                  \
        return a >= (type)(above) ? (highest) : a < (type)(lowest) ? (lowest) : inside;                          \
    }

#define GT_CAST_BOOL(from, type)                                                                                 \
    GT_INLINE int gt_cast_##from##_b1(type a) { return a != 0; }

#define GT_CASTS_FLOAT(from, type)                                                                               \
    GT_CAST(from, type, f32, float)                                                                              \
    GT_CAST(from, type, f64, double)                                                                             \
    GT_CAST_SATURATE(from, type, i8, int8_t, INT8_MIN, INT8_MAX, 128.0)                                          \
    GT_CAST_SATURATE(from, type, i16, int16_t, INT16_MIN, INT16_MAX, 32768.0)                                    \
    GT_CAST_SATURATE(from, type, i32, int32_t, INT32_MIN, INT32_MAX, 2147483648.0)                               \
    GT_CAST_SATURATE(from, type, i64, int64_t, INT64_MIN, INT64_MAX, 9223372036854775808.0)                      \
    GT_CAST_SATURATE(from, type, u8, uint8_t, 0, UINT8_MAX, 256.0)                                               \
    GT_CAST_SATURATE(from, type, u16, uint16_t, 0, UINT16_MAX, 65536.0)                                          \
    GT_CAST_SATURATE(from, type, u32, uint32_t, 0, UINT32_MAX, 4294967296.0)                                     \
    GT_CAST_SATURATE(from, type, u64, uint64_t, 0, UINT64_MAX, 18446744073709551616.0)                           \
    GT_CAST_BOOL(from, type)

#define GT_CASTS_INTEGER(from, type)                                                                             \
    GT_CAST(from, type, f32, float)                                                                              \
    GT_CAST(from, type, f64, double)                                                                             \
    GT_CAST(from, type, i8, int8_t)                                                                              \
    GT_CAST(from, type, i16, int16_t)                                                                            \
    GT_CAST(from, type, i32, int32_t)                                                                            \
    GT_CAST(from, type, i64, int64_t)                                                                            \
    GT_CAST(from, type, u8, uint8_t)                                                                             \
    GT_CAST(from, type, u16, uint16_t)                                                                           \
    GT_CAST(from, type, u32, uint32_t)                                                                           \
    GT_CAST(from, type, u64, uint64_t)                                                                           \
    GT_CAST_BOOL(from, type)

GT_CASTS_FLOAT(f32, float)
GT_CASTS_FLOAT(f64, double)
GT_CASTS_INTEGER(i8, int8_t)
GT_CASTS_INTEGER(i16, int16_t)
GT_CASTS_INTEGER(i32, int32_t)
GT_CASTS_INTEGER(i64, int64_t)
GT_CASTS_INTEGER(u8, uint8_t)
GT_CASTS_INTEGER(u16, uint16_t)
GT_CASTS_INTEGER(u32, uint32_t)
GT_CASTS_INTEGER(u64, uint64_t)
GT_CASTS_INTEGER(b1, int)

#endif
