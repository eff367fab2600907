/* gt_log_f32.h: logarithms, float32: log log2 log10 log1p softplus log_sigmoid. Included by gt_math_f32.h, once
 * for float and once for vectors: no include guard.
 *
 * All take x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), and log(1 + f) = f + f^2 q(f).
 */

typedef struct {
    GT_V k, f;
} GT_F(split);

#define GT_SQRT_HALF_BITS 0x3f3504f3u

/* Of a positive, normal x. */
GT_INLINE GT_F(split) GT_F(split_normal)(GT_V x)
{
    GT_U bits = GT_BITS(x);
    GT_I k = (GT_I)(bits - GT_SQRT_HALF_BITS) >> 23;
    GT_F(split) s = {GT_NUMBER(k), GT_VALUE(bits - ((GT_U)k << 23)) - 1.0f};
    return s;
}

/* Of any positive x. */
GT_INLINE GT_F(split) GT_F(split_of)(GT_V x)
{
    GT_I tiny = GT_IS(x < 0x1p-126f);
    GT_F(split) s = GT_F(split_normal)(GT_F(where)(tiny, x * 0x1p25f, x));
    s.k = s.k - GT_VALUE((GT_U)tiny & GT_BITS(GT_C(25.0f)));
    return s;
}

/* The fit: (log(1 + f) - f) / f^2; the logarithm then has a relative error of 2^-27.6. */
GT_INLINE GT_V GT_F(log_rest)(GT_V f)
{
    GT_V q = GT_C(-0.074188314f);
    q = GT_F(fma)(q, f, GT_C(0.12822753f));
    q = GT_F(fma)(q, f, GT_C(-0.13280746f));
    q = GT_F(fma)(q, f, GT_C(0.14196281f));
    q = GT_F(fma)(q, f, GT_C(-0.16606696f));
    q = GT_F(fma)(q, f, GT_C(0.20001201f));
    q = GT_F(fma)(q, f, GT_C(-0.2500164f));
    q = GT_F(fma)(q, f, GT_C(0.33333337f));
    return GT_F(fma)(q, f, GT_C(-0.49999988f));
}

/* k ln 2 + f + f^2 q + less, where k times the first part of ln 2 is exact. */
GT_INLINE GT_V GT_F(log_joined)(GT_F(split) s, GT_V less)
{
    GT_V rest = GT_F(fma)(s.f * s.f, GT_F(log_rest)(s.f), GT_F(fma)(s.k, GT_C(1.4286068e-06f), less));
    return GT_F(fma)(s.k, GT_C(0.69314575f), s.f + rest);
}

/* The logarithm of any x, given that of positive finite x. The bits of a true comparison are those of a NaN. */
GT_INLINE GT_V GT_F(log_ends)(GT_V x, GT_V inside)
{
    GT_V signed_ = GT_VALUE(GT_BITS(inside) | (GT_U)GT_IS(x < 0.0f));
    GT_V above = GT_F(where)(GT_IS(x == 0.0f), GT_C(-INFINITY), signed_);
    return GT_F(where)(GT_IS(x < INFINITY), above, x);
}

GT_INLINE GT_V GT_F(log)(GT_V x) { return GT_F(log_ends)(x, GT_F(log_joined)(GT_F(split_of)(x), GT_C(0.0f))); }

/* 1 / log(2) is 1.5 - 0.057; f * 1.5 is exact, f having 22 bits. */
GT_INLINE GT_V GT_F(log2)(GT_V x)
{
    GT_F(split) s = GT_F(split_of)(x);
    GT_V rest = s.f * s.f * GT_F(log_rest)(s.f);
    GT_V low = GT_F(fma)(s.f, GT_C(-0.05730496f), rest * 1.442695f);
    return GT_F(log_ends)(x, s.k + GT_F(fma)(s.f, GT_C(1.5f), low));
}

/* 1 / log(10) is 0.5 - 0.066; k times the first part of log10(2) is exact. */
GT_INLINE GT_V GT_F(log10)(GT_V x)
{
    GT_F(split) s = GT_F(split_of)(x);
    GT_V rest = s.f * s.f * GT_F(log_rest)(s.f);
    GT_V low = GT_F(fma)(s.f, GT_C(-0.065705515f), GT_F(fma)(s.k, GT_C(4.605039e-06f), rest * 0.4342945f));
    return GT_F(log_ends)(x, GT_F(fma)(s.k, GT_C(0.3010254f), GT_F(fma)(s.f, GT_C(0.5f), low)));
}

/* Of u = 1 + x, with what the sum lost added to f; halved, since 2^-k may be denormal. */
GT_INLINE GT_V GT_F(log1p)(GT_V x)
{
    GT_V u = 1.0f + x, lost = GT_F(where)(GT_IS(u > 2.0f), 1.0f - (u - x), x - (u - 1.0f));
    GT_F(split) s = GT_F(split_normal)(u);
    GT_U exponent = (GT_BITS(u) - GT_SQRT_HALF_BITS) & 0xff800000u;
    s.f = GT_F(fma)(0.5f * lost, GT_VALUE(0x40000000u - exponent), s.f);
    GT_V all = GT_F(log_ends)(u, GT_F(log_joined)(s, GT_C(0.0f)));
    return GT_F(where)(GT_IS(GT_F(abs)(x) < 0x1p-25f), x, all);
}

/* log(1 + e^x) = max(x, 0) + log(1 + e), e = e^-|x|: k is 1 where 1 + e > sqrt(2). What e and e - 1 lack goes into
 * the smallest term. */
GT_INLINE GT_V GT_F(softplus)(GT_V x)
{
    GT_F(reduced) p = GT_F(reduce)(-GT_F(at_most)(GT_F(abs)(x), GT_C(104.0f)), GT_C(0.0f), 254);
    GT_V grown = GT_F(grown)(p), lack = 1.0f - (1.0f + grown);
    GT_U none = (GT_U)GT_IS(GT_F(abs)(x) > 104.0f);
    GT_V e = GT_F(scaled_sum)(GT_C(1.0f), grown, p.shifted, none), lost = GT_F(scaled_sum)(grown, lack, p.shifted, none);
    GT_V less = e - 1.0f;
    GT_I big = GT_IS(e > 0.41421354f);
    lost = GT_F(where)(big, 0.5f * ((e - (less + 1.0f)) + lost), lost);
    GT_F(split) s = {GT_VALUE(GT_BITS(GT_C(1.0f)) & (GT_U)big), GT_F(where)(big, 0.5f * less, e)};
    return GT_F(at_least)(x, GT_C(0.0f)) + GT_F(log_joined)(s, lost);
}

GT_INLINE GT_V GT_F(log_sigmoid)(GT_V x) { return -GT_F(softplus)(-x); }
