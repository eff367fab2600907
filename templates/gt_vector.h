/* gt_vector.h: vectors of GT_WIDTH bytes, and the exact operations of gt_scalar.h over them.
 *
 * How generated code uses it: a unit that has vectors begins with
 *
 *     #define GT_WIDTH 32            16, 32 or 64, no wider than the registers of the target
 *     #include "gt_math.h"           or "gt_vector.h" alone, where no function of gt_math.h is called
 *
 * and then has GT_LANES floats (32-bit integers, truth values) in a vector:
 *
 *     gt_v_f32 gt_v_i32              vectors of float and int32_t
 *     gt_v_b1                        a vector of truth values, -1 (all bits) for true and 0 for false: a mask
 *     gt_v_f64                       GT_LANES / 2 doubles: storage and arithmetic for products
 *
 * The tag of a vector is v_ and the tag of its elements. So a C form such as gt_max_{t}({0}, {1}) or
 * gt_cast_{t}_{r}({0}) serves vectors by t = v_f32, r = v_i32; + - * / on f32, & | ^ on i32 and b1 and
 * the comparisons (which give a gt_v_b1) are the operators themselves. What operators cannot say has a name:
 * gt_not_v_b1(a), gt_where_v_f32(mask, a, b), gt_neg_v_f32(a). i32 wraps by gt_add_v_i32 and its like; its
 * own operators + - * must not overflow. A plain number may stand beside a vector of its type at an operator;
 * as an argument it is written gt_splat_f32(2.0f).
 *
 *     gt_splat_f32(s)                s in all lanes                         _f32 _i32 _f64, _b1 (any int)
 *     gt_load_f32(p)                 GT_LANES elements from p, any alignment           _f32 _i32 _f64 _b1 (bytes)
 *     gt_store_f32(p, v)
 *     gt_load_part_f32(p, rest)      the first `rest` of them, 0 <= rest <= GT_LANES; lanes beyond are 0 and
 *     gt_store_part_f32(p, v, rest)  memory beyond is not touched
 *     gt_load_upto_f32(p, rest)      the same for any rest > 0: all lanes where there are so many, as in a loop whose
 *     gt_store_upto_f32(p, v, rest)  last vector is in part                                       _f32 _i32 _b1
 *     gt_count_i32(first)            first, first + 1, first + 2, ...
 *     gt_first_lanes(rest)           the mask of lanes below rest: in a fold, what lies beyond is replaced
 *                                    by the neutral element with gt_where_v_f32
 *     gt_any_v_b1(m)                 1 if a lane is true
 *     gt_fold_sum_f32(v)             v folded in halves: lane l takes lane l + n for n = GT_LANES / 2, ... 2, 1;
 *     gt_fold_max_f32(v) and _min    of 16 running lanes in 16 / GT_LANES vectors, fold the vectors in halves
 *                                    first, and the bits are the same for every width
 *
 * A loop over n elements, the last vector in part:
 *
 *     for (int64_t j = 0; j + GT_LANES <= n; j += GT_LANES)
 *         gt_store_f32(y + j, gt_tanh_v_f32(gt_load_f32(x + j)));
 *     if (n % GT_LANES) {
 *         const int64_t j = n - n % GT_LANES;
 *         gt_store_part_f32(y + j, gt_tanh_v_f32(gt_load_part_f32(x + j, n - j)), n - j);
 *     }
 *
 * or, shorter and about as fast:
 *
 *     for (int64_t j = 0; j < n; j += GT_LANES)
 *         gt_store_upto_f32(y + j, gt_tanh_v_f32(gt_load_upto_f32(x + j, n - j)), n - j);
 *
 * Every function gives in each lane the bits of its scalar namesake (of a NaN: that it is one), so a tail may
 * as well be a scalar loop. Vectors are those of gcc and clang, no instruction set is named but where the
 * compilers need it: GT_X86 below.
 */
#ifndef GT_VECTOR_H
#define GT_VECTOR_H

#include "gt_scalar.h"

#ifndef GT_WIDTH
#error "define GT_WIDTH, the bytes of a vector, before this header"
#endif

/* ---- types -------------------------------------------------------------------------------------------- */

#define GT_LANES (GT_WIDTH / 4)

/* GT_EACH(s): s for each lane. GT_COUNT(n): n, n + 1, ... */
#define GT_EACH_4(s) (s), (s), (s), (s)
#define GT_COUNT_4(n) (n), (n) + 1, (n) + 2, (n) + 3
#if GT_WIDTH == 16
#define GT_EACH(s) GT_EACH_4(s)
#define GT_EACH_HALF(s) (s), (s)
#define GT_COUNT(n) GT_COUNT_4(n)
#elif GT_WIDTH == 32
#define GT_EACH(s) GT_EACH_4(s), GT_EACH_4(s)
#define GT_EACH_HALF(s) GT_EACH_4(s)
#define GT_COUNT(n) GT_COUNT_4(n), GT_COUNT_4((n) + 4)
#elif GT_WIDTH == 64
#define GT_EACH(s) GT_EACH_4(s), GT_EACH_4(s), GT_EACH_4(s), GT_EACH_4(s)
#define GT_EACH_HALF(s) GT_EACH_4(s), GT_EACH_4(s)
#define GT_COUNT(n) GT_COUNT_4(n), GT_COUNT_4((n) + 4), GT_COUNT_4((n) + 8), GT_COUNT_4((n) + 12)
#else
#error "GT_WIDTH is 16, 32 or 64"
#endif

typedef float gt_v_f32 __attribute__((vector_size(GT_WIDTH)));
typedef double gt_v_f64 __attribute__((vector_size(GT_WIDTH)));
typedef int32_t gt_v_i32 __attribute__((vector_size(GT_WIDTH)));
typedef gt_v_i32 gt_v_b1;
typedef uint32_t gt_v_u32 __attribute__((vector_size(GT_WIDTH)));
typedef uint8_t gt_v_u8 __attribute__((vector_size(GT_LANES)));

/* The same anywhere in memory. */
typedef float gt_any_f32 __attribute__((vector_size(GT_WIDTH), aligned(4), may_alias));
typedef double gt_any_f64 __attribute__((vector_size(GT_WIDTH), aligned(8), may_alias));
typedef int32_t gt_any_i32 __attribute__((vector_size(GT_WIDTH), aligned(4), may_alias));
typedef uint8_t gt_any_u8 __attribute__((vector_size(GT_LANES), aligned(1), may_alias));

/* GT_X86(name): whether the compiler has this x86 instruction as a builtin. They are named, and not the functions
 * of <immintrin.h>, since that header takes longer to compile than most models. */
#if defined(__x86_64__) || defined(__i386__)
#define GT_X86(name) GT_HAS_BUILTIN(__builtin_ia32_##name)
#else
#define GT_X86(name) 0
#endif
#define GT_ALL_LANES (unsigned short)-1
#define GT_CURRENT_ROUNDING 4

/* ---- storage ------------------------------------------------------------------------------------------ */

GT_INLINE gt_v_f32 gt_splat_f32(float s) { return (gt_v_f32){GT_EACH(s)}; }
GT_INLINE gt_v_i32 gt_splat_i32(int32_t s) { return (gt_v_i32){GT_EACH(s)}; }
GT_INLINE gt_v_b1 gt_splat_b1(int s) { return gt_splat_i32(-(s != 0)); }
GT_INLINE gt_v_f64 gt_splat_f64(double s) { return (gt_v_f64){GT_EACH_HALF(s)}; }

GT_INLINE gt_v_f32 gt_load_f32(const float *p) { return *(const gt_any_f32 *)p; }
GT_INLINE gt_v_i32 gt_load_i32(const int32_t *p) { return *(const gt_any_i32 *)p; }
GT_INLINE gt_v_f64 gt_load_f64(const double *p) { return *(const gt_any_f64 *)p; }
GT_INLINE void gt_store_f32(float *p, gt_v_f32 v) { *(gt_any_f32 *)p = v; }
GT_INLINE void gt_store_i32(int32_t *p, gt_v_i32 v) { *(gt_any_i32 *)p = v; }
GT_INLINE void gt_store_f64(double *p, gt_v_f64 v) { *(gt_any_f64 *)p = v; }

GT_INLINE gt_v_i32 gt_count_i32(int32_t first) { return (gt_v_i32){GT_COUNT(0)} + first; }
GT_INLINE gt_v_b1 gt_first_lanes(int64_t rest) { return gt_count_i32(0) < (int32_t)rest; }

#if GT_WIDTH == 64 && defined(__AVX512F__) && GT_X86(loadups512_mask) && GT_X86(storeups512_mask)
#define GT_LOAD_PART(p, rest)                                                                                    \
    (gt_v_f32) __builtin_ia32_loadups512_mask((const void *)(p), gt_splat_f32(0), (unsigned short)((1u << (rest)) - 1))
#define GT_STORE_PART(p, v, rest)                                                                                \
    __builtin_ia32_storeups512_mask((void *)(p), (gt_v_f32)(v), (unsigned short)((1u << (rest)) - 1))
#elif GT_WIDTH == 32 && defined(__AVX__) && GT_X86(maskloadps256) && GT_X86(maskstoreps256)
#define GT_LOAD_PART(p, rest) (gt_v_f32) __builtin_ia32_maskloadps256((const void *)(p), gt_first_lanes(rest))
#define GT_STORE_PART(p, v, rest) __builtin_ia32_maskstoreps256((void *)(p), gt_first_lanes(rest), (gt_v_f32)(v))
#elif GT_WIDTH == 16 && defined(__AVX__) && GT_X86(maskloadps) && GT_X86(maskstoreps)
#define GT_LOAD_PART(p, rest) (gt_v_f32) __builtin_ia32_maskloadps((const void *)(p), gt_first_lanes(rest))
#define GT_STORE_PART(p, v, rest) __builtin_ia32_maskstoreps((void *)(p), gt_first_lanes(rest), (gt_v_f32)(v))
#endif

#if defined(GT_LOAD_PART)
GT_INLINE gt_v_f32 gt_load_part_f32(const float *p, int64_t rest) { return GT_LOAD_PART(p, rest); }
GT_INLINE void gt_store_part_f32(float *p, gt_v_f32 v, int64_t rest) { GT_STORE_PART(p, v, rest); }
GT_INLINE gt_v_i32 gt_load_part_i32(const int32_t *p, int64_t rest) { return (gt_v_i32)GT_LOAD_PART(p, rest); }
GT_INLINE void gt_store_part_i32(int32_t *p, gt_v_i32 v, int64_t rest) { GT_STORE_PART(p, v, rest); }
#else
/* Apart: where gcc knows the length it unrolls them into kernels, and warns of elements that no vector there has. */
GT_APART gt_v_i32 gt_load_part_i32(const int32_t *p, int64_t rest)
{
    int32_t lane[GT_LANES] = {0};
    for (int l = 0; l < GT_LANES && l < rest; l++)
        lane[l] = p[l];
    return gt_load_i32(lane);
}
GT_APART void gt_store_part_i32(int32_t *p, gt_v_i32 v, int64_t rest)
{
    for (int l = 0; l < GT_LANES && l < rest; l++)
        p[l] = v[l];
}
GT_APART gt_v_f32 gt_load_part_f32(const float *p, int64_t rest)
{
    float lane[GT_LANES] = {0};
    for (int l = 0; l < GT_LANES && l < rest; l++)
        lane[l] = p[l];
    return gt_load_f32(lane);
}
GT_APART void gt_store_part_f32(float *p, gt_v_f32 v, int64_t rest)
{
    for (int l = 0; l < GT_LANES && l < rest; l++)
        p[l] = v[l];
}
#endif

GT_INLINE gt_v_f64 gt_load_part_f64(const double *p, int64_t rest)
{
    double lane[GT_LANES / 2] = {0};
    for (int l = 0; l < GT_LANES / 2 && l < rest; l++)
        lane[l] = p[l];
    return gt_load_f64(lane);
}
GT_INLINE void gt_store_part_f64(double *p, gt_v_f64 v, int64_t rest)
{
    for (int l = 0; l < GT_LANES / 2 && l < rest; l++)
        p[l] = v[l];
}

/* Truth values are bytes 0 and 1 in memory. gcc takes lanes apart one by one where it converts bytes. */
#if GT_WIDTH == 16 && defined(__SSE4_1__) && GT_X86(pmovzxbd128)
typedef char gt_bytes __attribute__((vector_size(16)));
#define GT_WIDENED(bytes) (gt_v_i32) __builtin_ia32_pmovzxbd128((gt_bytes)(gt_v_i32){(int32_t)*(const gt_any_4 *)(bytes)})
typedef uint32_t gt_any_4 __attribute__((aligned(1), may_alias));
#elif GT_WIDTH == 32 && defined(__AVX2__) && GT_X86(pmovzxbd256)
typedef char gt_bytes __attribute__((vector_size(16)));
typedef int64_t gt_pair __attribute__((vector_size(16)));
typedef int64_t gt_any_8 __attribute__((aligned(1), may_alias));
#define GT_WIDENED(bytes) (gt_v_i32) __builtin_ia32_pmovzxbd256((gt_bytes)(gt_pair){*(const gt_any_8 *)(bytes)})
#elif GT_WIDTH == 64 && defined(__AVX512F__) && GT_X86(pmovzxbd512_mask)
typedef char gt_bytes __attribute__((vector_size(16)));
#define GT_WIDENED(bytes)                                                                                        \
    (gt_v_i32) __builtin_ia32_pmovzxbd512_mask((gt_bytes)*(const gt_any_u8 *)(bytes), gt_splat_i32(0), GT_ALL_LANES)
#else
#define GT_WIDENED(bytes) __builtin_convertvector(*(const gt_any_u8 *)(bytes), gt_v_i32)
#endif

GT_INLINE gt_v_b1 gt_load_b1(const uint8_t *p) { return -GT_WIDENED(p); }
GT_INLINE void gt_store_b1(uint8_t *p, gt_v_b1 m) { *(gt_any_u8 *)p = __builtin_convertvector(-m, gt_v_u8); }

#if GT_WIDTH == 64 && defined(__AVX512BW__) && defined(__AVX512VL__) && GT_X86(loaddquqi128_mask) &&             \
    GT_X86(storedquqi128_mask)
typedef char gt_bytes __attribute__((vector_size(16)));
GT_INLINE gt_v_b1 gt_load_part_b1(const uint8_t *p, int64_t rest)
{
    const gt_bytes none = {0}, some = (gt_bytes)__builtin_ia32_loaddquqi128_mask(
        (const void *)p, none, (unsigned short)((1u << rest) - 1));
    return -__builtin_convertvector(some, gt_v_i32);
}
GT_INLINE void gt_store_part_b1(uint8_t *p, gt_v_b1 m, int64_t rest)
{
    const gt_bytes all = (gt_bytes)__builtin_convertvector(-m, gt_v_u8);
    __builtin_ia32_storedquqi128_mask((void *)p, all, (unsigned short)((1u << rest) - 1));
}
#else
/* Apart, as those of float32 are where there is no instruction for them. */
GT_APART gt_v_b1 gt_load_part_b1(const uint8_t *p, int64_t rest)
{
    uint8_t lane[GT_LANES] = {0};
    for (int l = 0; l < GT_LANES && l < rest; l++)
        lane[l] = p[l];
    return gt_load_b1(lane);
}
GT_APART void gt_store_part_b1(uint8_t *p, gt_v_b1 m, int64_t rest)
{
    for (int l = 0; l < GT_LANES && l < rest; l++)
        p[l] = (uint8_t)(m[l] & 1);
}
#endif

#if GT_WIDTH == 64 && defined(GT_LOAD_PART)
/* Masks cost nothing here: there is no branch. */
#define GT_UPTO(kind, type)                                                                                      \
    GT_INLINE gt_v_##kind gt_load_upto_##kind(const type *p, int64_t rest)                                       \
    {                                                                                                            \
        return gt_load_part_##kind(p, rest < GT_LANES ? rest : GT_LANES);                                        \
    }                                                                                                            \
    GT_INLINE void gt_store_upto_##kind(type *p, gt_v_##kind v, int64_t rest)                                    \
    {                                                                                                            \
        gt_store_part_##kind(p, v, rest < GT_LANES ? rest : GT_LANES);                                           \
    }
GT_UPTO(f32, float)
GT_UPTO(i32, int32_t)
#undef GT_UPTO
#endif

#define GT_UPTO(kind, type)                                                                                      \
    GT_INLINE gt_v_##kind gt_load_upto_##kind(const type *p, int64_t rest)                                       \
    {                                                                                                            \
        return rest < GT_LANES ? gt_load_part_##kind(p, rest) : gt_load_##kind(p);                               \
    }                                                                                                            \
    GT_INLINE void gt_store_upto_##kind(type *p, gt_v_##kind v, int64_t rest)                                    \
    {                                                                                                            \
        if (rest < GT_LANES)                                                                                     \
            gt_store_part_##kind(p, v, rest);                                                                    \
        else                                                                                                     \
            gt_store_##kind(p, v);                                                                               \
    }
#if !(GT_WIDTH == 64 && defined(GT_LOAD_PART))
GT_UPTO(f32, float)
GT_UPTO(i32, int32_t)
#endif
GT_UPTO(b1, uint8_t)

/* Adds floats to as many doubles in memory. */
typedef float gt_half_f32 __attribute__((vector_size(GT_WIDTH / 2)));
GT_INLINE void gt_add_wide_f32(double *p, gt_v_f32 v)
{
    union {
        gt_v_f32 all;
        gt_half_f32 half[2];
    } u = {v};
    for (int h = 0; h < 2; h++) {
        double *part = p + h * (GT_LANES / 2);
        gt_store_f64(part, gt_load_f64(part) + __builtin_convertvector(u.half[h], gt_v_f64));
    }
}
GT_INLINE void gt_add_wide_upto_f32(double *p, gt_v_f32 v, int64_t rest)
{
    if (rest >= GT_LANES)
        gt_add_wide_f32(p, v);
    else
        for (int l = 0; l < GT_LANES && l < rest; l++)
            p[l] += (double)v[l];
}

/* ---- truth values, choice ----------------------------------------------------------------------------- */

GT_INLINE gt_v_b1 gt_not_v_b1(gt_v_b1 a) { return ~a; }
GT_INLINE gt_v_i32 gt_where_v_i32(gt_v_b1 m, gt_v_i32 a, gt_v_i32 b) { return (m & a) | (~m & b); }
GT_INLINE gt_v_b1 gt_where_v_b1(gt_v_b1 m, gt_v_b1 a, gt_v_b1 b) { return gt_where_v_i32(m, a, b); }
GT_INLINE gt_v_f32 gt_where_v_f32(gt_v_b1 m, gt_v_f32 a, gt_v_f32 b)
{
    return (gt_v_f32)gt_where_v_i32(m, (gt_v_i32)a, (gt_v_i32)b);
}

/* v moved down by n lanes; what comes in from above does not matter. */
#if defined(__clang__)
#define GT_MOVED(v, n) __builtin_shufflevector(v, v, GT_COUNT(n))
#else
#define GT_MOVED(v, n) __builtin_shuffle(v, v, (gt_v_i32){GT_COUNT(n)})
#endif

/* combine(v, v moved) for 8, 4, 2, 1 lanes, as far as there are so many. */
#if GT_WIDTH == 16
#define GT_FOLD_WIDE(v, combine)
#elif GT_WIDTH == 32
#define GT_FOLD_WIDE(v, combine) v = combine(v, GT_MOVED(v, 4));
#else
#define GT_FOLD_WIDE(v, combine)                                                                                 \
    v = combine(v, GT_MOVED(v, 8));                                                                              \
    v = combine(v, GT_MOVED(v, 4));
#endif
#define GT_FOLD(v, combine)                                                                                      \
    GT_FOLD_WIDE(v, combine)                                                                                     \
    v = combine(v, GT_MOVED(v, 2));                                                                              \
    v = combine(v, GT_MOVED(v, 1));

#if GT_WIDTH == 64 && defined(__AVX512DQ__) && GT_X86(cvtd2mask512)
GT_INLINE int gt_any_v_b1(gt_v_b1 m) { return __builtin_ia32_cvtd2mask512(m) != 0; }
#elif GT_WIDTH == 32 && defined(__AVX__) && GT_X86(movmskps256)
GT_INLINE int gt_any_v_b1(gt_v_b1 m) { return __builtin_ia32_movmskps256((gt_v_f32)m) != 0; }
#elif GT_WIDTH == 16 && defined(__SSE__) && GT_X86(movmskps)
GT_INLINE int gt_any_v_b1(gt_v_b1 m) { return __builtin_ia32_movmskps((gt_v_f32)m) != 0; }
#else
#define GT_EITHER(a, b) ((a) | (b))
GT_INLINE int gt_any_v_b1(gt_v_b1 m)
{
    GT_FOLD(m, GT_EITHER)
    return m[0] != 0;
}
#endif

/* ---- floats ------------------------------------------------------------------------------------------- */

GT_INLINE gt_v_f32 gt_add_v_f32(gt_v_f32 a, gt_v_f32 b) { return a + b; }
GT_INLINE gt_v_f32 gt_sub_v_f32(gt_v_f32 a, gt_v_f32 b) { return a - b; }
GT_INLINE gt_v_f32 gt_mul_v_f32(gt_v_f32 a, gt_v_f32 b) { return a * b; }
GT_INLINE gt_v_f32 gt_div_v_f32(gt_v_f32 a, gt_v_f32 b) { return a / b; }
GT_INLINE gt_v_f32 gt_neg_v_f32(gt_v_f32 a) { return -a; }
GT_INLINE gt_v_f32 gt_square_v_f32(gt_v_f32 a) { return a * a; }
GT_INLINE gt_v_f32 gt_reciprocal_v_f32(gt_v_f32 a) { return 1.0f / a; }
GT_INLINE gt_v_f32 gt_fma_v_f32(gt_v_f32 a, gt_v_f32 b, gt_v_f32 c) { return VFMA(a, b, c); }
GT_INLINE gt_v_f64 gt_fma_v_f64(gt_v_f64 a, gt_v_f64 b, gt_v_f64 c) { return VFMA(a, b, c); }

GT_INLINE gt_v_f32 gt_abs_v_f32(gt_v_f32 a) { return (gt_v_f32)((gt_v_i32)a & INT32_MAX); }
GT_INLINE gt_v_f32 gt_copysign_v_f32(gt_v_f32 size, gt_v_f32 sign)
{
    return (gt_v_f32)(((gt_v_i32)size & INT32_MAX) | ((gt_v_i32)sign & INT32_MIN));
}

GT_INLINE gt_v_b1 gt_isnan_v_f32(gt_v_f32 a) { return a != a; }
GT_INLINE gt_v_b1 gt_isinf_v_f32(gt_v_f32 a) { return gt_abs_v_f32(a) == INFINITY; }
GT_INLINE gt_v_b1 gt_isfinite_v_f32(gt_v_f32 a) { return gt_abs_v_f32(a) < INFINITY; }

GT_INLINE gt_v_f32 gt_sign_v_f32(gt_v_f32 a)
{
    gt_v_i32 one = (gt_v_i32)gt_splat_f32(1), minus_one = (gt_v_i32)gt_splat_f32(-1);
    return gt_where_v_f32(a != a, a, (gt_v_f32)(((a > 0) & one) | ((a < 0) & minus_one)));
}

/* a where a > b, else b: also where they are not ordered. This is an instruction of x86, which gcc finds for
 * scalars only. */
#if GT_WIDTH == 64 && defined(__AVX512F__) && GT_X86(maxps512_mask)
#define GT_GREATER(a, b) (gt_v_f32) __builtin_ia32_maxps512_mask(a, b, a, GT_ALL_LANES, GT_CURRENT_ROUNDING)
#define GT_LESSER(a, b) (gt_v_f32) __builtin_ia32_minps512_mask(a, b, a, GT_ALL_LANES, GT_CURRENT_ROUNDING)
#elif GT_WIDTH == 32 && defined(__AVX__) && GT_X86(maxps256)
#define GT_GREATER(a, b) (gt_v_f32) __builtin_ia32_maxps256(a, b)
#define GT_LESSER(a, b) (gt_v_f32) __builtin_ia32_minps256(a, b)
#elif GT_WIDTH == 16 && defined(__SSE__) && GT_X86(maxps)
#define GT_GREATER(a, b) (gt_v_f32) __builtin_ia32_maxps(a, b)
#define GT_LESSER(a, b) (gt_v_f32) __builtin_ia32_minps(a, b)
#else
#define GT_GREATER(a, b) gt_where_v_f32((a) > (b), a, b)
#define GT_LESSER(a, b) gt_where_v_f32((a) < (b), a, b)
#endif

GT_INLINE gt_v_f32 gt_max_v_f32(gt_v_f32 a, gt_v_f32 b) { return gt_where_v_f32(a != a, a, GT_GREATER(a, b)); }
GT_INLINE gt_v_f32 gt_min_v_f32(gt_v_f32 a, gt_v_f32 b) { return gt_where_v_f32(a != a, a, GT_LESSER(a, b)); }
GT_INLINE gt_v_f32 gt_at_least_v_f32(gt_v_f32 x, gt_v_f32 low) { return GT_GREATER(low, x); }
GT_INLINE gt_v_f32 gt_at_most_v_f32(gt_v_f32 x, gt_v_f32 high) { return GT_LESSER(high, x); }

GT_INLINE float gt_fold_sum_f32(gt_v_f32 v)
{
    GT_FOLD(v, gt_add_v_f32)
    return v[0];
}
GT_INLINE float gt_fold_max_f32(gt_v_f32 v)
{
    GT_FOLD(v, gt_max_v_f32)
    return v[0];
}
GT_INLINE float gt_fold_min_f32(gt_v_f32 v)
{
    GT_FOLD(v, gt_min_v_f32)
    return v[0];
}

/* One lane after the other, for what has no form in vectors; compilers may well find one. */
#define GT_LANEWISE_1(name, kind, type)                                                                          \
    GT_INLINE gt_v_##kind gt_##name##_v_##kind(gt_v_##kind a)                                                    \
    {                                                                                                            \
        type lane[GT_LANES];                                                                                     \
        gt_store_##kind(lane, a);                                                                                \
        for (int l = 0; l < GT_LANES; l++)                                                                       \
            lane[l] = gt_##name##_##kind(lane[l]);                                                               \
        return gt_load_##kind(lane);                                                                             \
    }
#define GT_LANEWISE_2(name, kind, type)                                                                          \
    GT_INLINE gt_v_##kind gt_##name##_v_##kind(gt_v_##kind a, gt_v_##kind b)                                     \
    {                                                                                                            \
        type lane[GT_LANES], other[GT_LANES];                                                                    \
        gt_store_##kind(lane, a);                                                                                \
        gt_store_##kind(other, b);                                                                               \
        for (int l = 0; l < GT_LANES; l++)                                                                       \
            lane[l] = gt_##name##_##kind(lane[l], other[l]);                                                     \
        return gt_load_##kind(lane);                                                                             \
    }

GT_INLINE gt_v_b1 gt_signbit_v_f32(gt_v_f32 a) { return (gt_v_i32)a < 0; }

GT_LANEWISE_2(remainder, f32, float)
GT_LANEWISE_2(floor_divide, f32, float)

#if GT_HAS_BUILTIN(__builtin_elementwise_sqrt)
#define GT_ROOT(a) __builtin_elementwise_sqrt(a)
#elif GT_WIDTH == 64 && defined(__AVX512F__) && GT_X86(sqrtps512_mask)
#define GT_ROOT(a) (gt_v_f32) __builtin_ia32_sqrtps512_mask(a, a, GT_ALL_LANES, GT_CURRENT_ROUNDING)
#elif GT_WIDTH == 64 && defined(__AVX512F__) && GT_X86(sqrtps512)
#define GT_ROOT(a) (gt_v_f32) __builtin_ia32_sqrtps512(a, GT_CURRENT_ROUNDING)
#elif GT_WIDTH == 32 && defined(__AVX__) && GT_X86(sqrtps256)
#define GT_ROOT(a) (gt_v_f32) __builtin_ia32_sqrtps256(a)
#elif GT_WIDTH == 16 && defined(__SSE__) && GT_X86(sqrtps)
#define GT_ROOT(a) (gt_v_f32) __builtin_ia32_sqrtps(a)
#endif

#if defined(GT_ROOT)
GT_INLINE gt_v_f32 gt_sqrt_v_f32(gt_v_f32 a) { return GT_ROOT(a); }
#else
GT_LANEWISE_1(sqrt, f32, float)
#endif
GT_INLINE gt_v_f32 gt_rsqrt_v_f32(gt_v_f32 a) { return 1.0f / gt_sqrt_v_f32(a); }

/* Rounding to whole numbers. The modes are those of the instruction: to even, down, up, towards zero. */
#define GT_EVEN 0
#define GT_DOWN 1
#define GT_UP 2
#define GT_CUT 3
#if GT_WIDTH == 64 && defined(__AVX512F__) && GT_X86(rndscaleps_mask)
#define GT_WHOLE(a, mode) (gt_v_f32) __builtin_ia32_rndscaleps_mask(a, mode, a, GT_ALL_LANES, GT_CURRENT_ROUNDING)
#elif GT_WIDTH == 32 && defined(__AVX__) && GT_X86(roundps256)
#define GT_WHOLE(a, mode) (gt_v_f32) __builtin_ia32_roundps256(a, mode)
#elif GT_WIDTH == 16 && defined(__SSE4_1__) && GT_X86(roundps)
#define GT_WHOLE(a, mode) (gt_v_f32) __builtin_ia32_roundps(a, mode)
#endif

#if defined(GT_WHOLE)
GT_INLINE gt_v_f32 gt_round_v_f32(gt_v_f32 a) { return GT_WHOLE(a, GT_EVEN); }
GT_INLINE gt_v_f32 gt_floor_v_f32(gt_v_f32 a) { return GT_WHOLE(a, GT_DOWN); }
GT_INLINE gt_v_f32 gt_ceil_v_f32(gt_v_f32 a) { return GT_WHOLE(a, GT_UP); }
GT_INLINE gt_v_f32 gt_trunc_v_f32(gt_v_f32 a) { return GT_WHOLE(a, GT_CUT); }
#else
/* Beside 2^23 a float has no fraction left; from there on all are whole. */
GT_INLINE gt_v_f32 gt_round_v_f32(gt_v_f32 a)
{
    gt_v_f32 size = gt_abs_v_f32(a), whole = (size + 0x1p23f) - 0x1p23f;
    return gt_where_v_f32(size < 0x1p23f, gt_copysign_v_f32(whole, a), a);
}
GT_INLINE gt_v_f32 gt_floor_v_f32(gt_v_f32 a)
{
    gt_v_f32 near = gt_round_v_f32(a);
    return gt_where_v_f32(near > a, near - 1.0f, near);
}
GT_INLINE gt_v_f32 gt_ceil_v_f32(gt_v_f32 a) { return -gt_floor_v_f32(-a); }
GT_INLINE gt_v_f32 gt_trunc_v_f32(gt_v_f32 a) { return gt_copysign_v_f32(gt_floor_v_f32(gt_abs_v_f32(a)), a); }
#endif

/* ---- integers ----------------------------------------------------------------------------------------- */

#define GT_WRAPPED(a, operator, b) (gt_v_i32)((gt_v_u32)(a) operator (gt_v_u32)(b))

GT_INLINE gt_v_i32 gt_add_v_i32(gt_v_i32 a, gt_v_i32 b) { return GT_WRAPPED(a, +, b); }
GT_INLINE gt_v_i32 gt_sub_v_i32(gt_v_i32 a, gt_v_i32 b) { return GT_WRAPPED(a, -, b); }
GT_INLINE gt_v_i32 gt_mul_v_i32(gt_v_i32 a, gt_v_i32 b) { return GT_WRAPPED(a, *, b); }
GT_INLINE gt_v_i32 gt_neg_v_i32(gt_v_i32 a) { return GT_WRAPPED(gt_splat_i32(0), -, a); }
GT_INLINE gt_v_i32 gt_square_v_i32(gt_v_i32 a) { return GT_WRAPPED(a, *, a); }
GT_INLINE gt_v_i32 gt_not_v_i32(gt_v_i32 a) { return ~a; }
GT_INLINE gt_v_i32 gt_max_v_i32(gt_v_i32 a, gt_v_i32 b) { return gt_where_v_i32(a > b, a, b); }
GT_INLINE gt_v_i32 gt_min_v_i32(gt_v_i32 a, gt_v_i32 b) { return gt_where_v_i32(a < b, a, b); }
GT_INLINE gt_v_i32 gt_abs_v_i32(gt_v_i32 a) { return gt_where_v_i32(a < 0, gt_neg_v_i32(a), a); }
GT_INLINE gt_v_i32 gt_sign_v_i32(gt_v_i32 a) { return (a < 0) - (a > 0); }

GT_INLINE gt_v_i32 gt_shift_left_v_i32(gt_v_i32 a, gt_v_i32 n)
{
    return ((n >= 0) & (n < 32)) & GT_WRAPPED(a, <<, n & 31);
}
GT_INLINE gt_v_i32 gt_shift_right_v_i32(gt_v_i32 a, gt_v_i32 n)
{
    return a >> gt_where_v_i32((n >= 0) & (n < 32), n, gt_splat_i32(31));
}

GT_LANEWISE_2(floor_divide, i32, int32_t)
GT_LANEWISE_2(remainder, i32, int32_t)
GT_LANEWISE_2(pow, i32, int32_t)

/* ---- casts: gt_cast_<from>_<to> ----------------------------------------------------------------------- */

GT_INLINE gt_v_f32 gt_cast_v_i32_v_f32(gt_v_i32 a) { return __builtin_convertvector(a, gt_v_f32); }
GT_INLINE gt_v_f32 gt_cast_v_b1_v_f32(gt_v_b1 m) { return (gt_v_f32)(m & (gt_v_i32)gt_splat_f32(1)); }
GT_INLINE gt_v_i32 gt_cast_v_b1_v_i32(gt_v_b1 m) { return -m; }
GT_INLINE gt_v_b1 gt_cast_v_f32_v_b1(gt_v_f32 a) { return a != 0; }
GT_INLINE gt_v_b1 gt_cast_v_i32_v_b1(gt_v_i32 a) { return a != 0; }

/* Truncates, saturates, and sends NaN to 0. */
GT_INLINE gt_v_i32 gt_cast_v_f32_v_i32(gt_v_f32 a)
{
    gt_v_b1 above = a >= 2147483648.0f, below = a < -2147483648.0f, fits = (a >= -2147483648.0f) & ~above;
    gt_v_i32 inside = __builtin_convertvector(gt_where_v_f32(fits, a, gt_splat_f32(0)), gt_v_i32);
    return gt_where_v_i32(above, gt_splat_i32(INT32_MAX), gt_where_v_i32(below, gt_splat_i32(INT32_MIN), inside));
}

#endif
