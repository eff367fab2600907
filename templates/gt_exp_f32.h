/* gt_exp_f32.h: e^x and what is made of it, float32: exp exp2 expm1 sinh cosh tanh sigmoid silu and the slope
 * of sigmoid. Included by gt_math_f32.h, once for float and once for vectors: no include guard.
 *
 * All reduce x = k ln 2 + r with |r| <= ln(2)/2 and differ in how they put 2^k and e^r together again: where
 * the result may be denormal or near the largest float, 2^k goes in two factors, and the second product rounds.
 */

/* ---- sums and products without loss -------------------------------------------------------------------- */

/* hi + lo, lo being what hi lacks. */
typedef struct {
    GT_V hi, lo;
} GT_F(pair);

/* a + b exactly. */
GT_INLINE GT_F(pair) GT_F(exact_sum)(GT_V a, GT_V b)
{
    GT_V hi = a + b, moved = hi - a;
    GT_F(pair) s = {hi, (a - (hi - moved)) + (b - moved)};
    return s;
}

/* a * b exactly, as long as nothing overflows or underflows. */
GT_INLINE GT_F(pair) GT_F(exact_product)(GT_V a, GT_V b)
{
#if GT_FUSED
    GT_V hi = a * b;
    GT_F(pair) p = {hi, GT_F(fma)(a, b, -hi)};
#else
    GT_V a1 = GT_VALUE(GT_BITS(a) & 0xfffff000u), b1 = GT_VALUE(GT_BITS(b) & 0xfffff000u); /* Dekker's halves */
    GT_V a2 = a - a1, b2 = b - b1, hi = a * b;
    GT_F(pair) p = {hi, ((a1 * b1 - hi) + a1 * b2 + a2 * b1) + a2 * b2};
#endif
    return p;
}

/* c - a b without rounding the product; exact if the result is a float. */
GT_INLINE GT_V GT_F(less)(GT_V c, GT_V a, GT_V b)
{
#if GT_FUSED
    return GT_F(fma)(-a, b, c);
#else
    GT_F(pair) p = GT_F(exact_product)(a, b);
    return (c - p.hi) - p.lo;
#endif
}

/* ---- the reduction -------------------------------------------------------------------------------------- */

/* The sum of this and x, |x| < 2^22, is rounded to a whole number k, whose bits are then the lowest of the sum.
 * An offset added to it beforehand comes out added to k, which saves an addition of the exponent's bias. */
#define GT_ROUND_F32 0x1.8p23f

/* The float with that biased exponent, 0 < exponent < 255, in the lowest bits of `shifted`. */
GT_INLINE GT_V GT_F(two_to)(GT_U shifted) { return GT_VALUE(shifted << 23); }

/* (e^r - 1 - r) / r^2 for |r| <= ln(2)/2; e^r then has a relative error of 2^-28.2. */
GT_INLINE GT_V GT_F(power_rest)(GT_V r)
{
    GT_V q = GT_C(0.0013836946f);
    q = GT_F(fma)(q, r, GT_C(0.008369187f));
    q = GT_F(fma)(q, r, GT_C(0.04166812f));
    q = GT_F(fma)(q, r, GT_C(0.16666517f));
    return GT_F(fma)(q, r, GT_C(0.49999994f));
}

/* x = k ln 2 + r - low, r without error; `shifted` holds k plus the offset. */
typedef struct {
    GT_U shifted;
    GT_V r, low;
} GT_F(reduced);

/* Of x - less, for a small `less`. ln 2 is 0.6931472f - 1.9e-9; without fused multiply-add the first is itself
 * taken in two parts, whose products with k are exact. */
GT_INLINE GT_F(reduced) GT_F(reduce)(GT_V x, GT_V less, int offset)
{
    GT_V rounder = GT_C(GT_ROUND_F32 + (float)offset);
    GT_V shifted = GT_F(fma)(x, GT_C(1.442695f), rounder), k = shifted - rounder;
#if GT_FUSED
    GT_V r = GT_F(fma)(k, GT_C(-0.6931472f), x);
#else
    GT_V r = (x - k * 0.693115234375f) - k * 3.194808959960938e-05f;
#endif
    GT_F(reduced) p = {GT_BITS(shifted), r, GT_F(fma)(k, GT_C(-1.9046542e-09f), less)};
    return p;
}

/* e^(r - low) - 1. */
GT_INLINE GT_V GT_F(grown)(GT_F(reduced) p)
{
    GT_V r = p.r - p.low;
    return GT_F(fma)(r * r, GT_F(power_rest)(r), r);
}

/* (a + b) 2^k for the offset 254 and any -150 <= k <= 128, by two factors of about half of k; 0 where `none` says so.
 * A product that underflows to 0 would take some hundred cycles, and e^-inf is what a mask makes of scores. */
GT_INLINE GT_V GT_F(scaled_sum)(GT_V a, GT_V b, GT_U shifted, GT_U none)
{
    GT_U half = (shifted << 22) & 0xff800000u;
    GT_V first = GT_VALUE(half), second = GT_VALUE(((shifted << 23) - half) & ~none);
    return GT_F(fma)(b, first, first * a) * second;
}

GT_INLINE GT_V GT_F(clamp)(GT_V x, float low, float high)
{
    return GT_F(at_most)(GT_F(at_least)(x, GT_C(low)), GT_C(high));
}

/* ---- powers --------------------------------------------------------------------------------------------- */

/* Below -104 everything rounds to 0, above 89 to infinity. */
GT_INLINE GT_V GT_F(exp)(GT_V x)
{
    GT_F(reduced) p = GT_F(reduce)(GT_F(clamp)(x, -104.0f, 89.0f), GT_C(0.0f), 254);
    return GT_F(scaled_sum)(GT_C(1.0f), GT_F(grown)(p), p.shifted, (GT_U)GT_IS(x < -104.0f));
}

/* The fit: (2^f - 1 - 0.6931472f f) / f^2 for |f| <= 1/2; 2^f then has a relative error of 2^-28.3. */
GT_INLINE GT_V GT_F(exp2)(GT_V x)
{
    GT_V inside = GT_F(clamp)(x, -151.0f, 129.0f), rounder = GT_C(GT_ROUND_F32 + 254);
    GT_V shifted = inside + rounder, f = inside - (shifted - rounder);
    GT_V q = GT_C(0.00015336326f);
    q = GT_F(fma)(q, f, GT_C(0.0013391393f));
    q = GT_F(fma)(q, f, GT_C(0.009618487f));
    q = GT_F(fma)(q, f, GT_C(0.05550359f));
    q = GT_F(fma)(q, f, GT_C(0.24022648f));
    q = GT_F(fma)(q, f, GT_C(0.6931472f));
    return GT_F(scaled_sum)(GT_C(1.0f), q * f, GT_BITS(shifted), (GT_U)GT_IS(x < -151.0f));
}

/* 2^k (1 + r + r^2 q) - 1 as (2^k - 1 + 2^k r) + 2^k r^2 q; halved, since 2^128 is no float. */
GT_INLINE GT_V GT_F(expm1)(GT_V x)
{
    GT_F(reduced) p = GT_F(reduce)(GT_F(clamp)(x, -30.0f, 89.0f), GT_C(0.0f), 126);
    GT_V half = GT_F(two_to)(p.shifted), r = p.r - p.low;
    GT_V upper = GT_F(fma)(half, r, half - 0.5f);
    GT_V all = 2.0f * GT_F(fma)(half * r, r * GT_F(power_rest)(r), upper);
    return GT_F(where)(GT_IS(GT_F(abs)(x) < 0x1p-25f), x, all);
}

/* ---- hyperbolic functions ------------------------------------------------------------------------------- */

/* A quarter of e^|x| and of e^-|x|, their sum and difference: each is 2^(+-k) (cosh r +- sinh r) / 4. */
typedef struct {
    GT_V up, down;     /* 2^(k-2), 2^(-k-2) */
    GT_V r, odd, even; /* sinh r = r + odd, cosh r = 1 + even */
} GT_F(twofold);

/* The fits, |r| <= ln(2)/2: (sinh r - r) / r^3, relative error of sinh r 2^-34.3, and (cosh r - 1) / r^2, 2^-33.2. */
GT_INLINE GT_F(twofold) GT_F(twofold_of)(GT_V x)
{
    GT_F(reduced) p = GT_F(reduce)(GT_F(at_most)(GT_F(abs)(x), GT_C(89.5f)), GT_C(0.0f), 125);
    GT_V up = GT_F(two_to)(p.shifted), z = p.r * p.r;
    GT_V s = GT_F(fma)(z, GT_F(fma)(z, GT_C(0.00019974081f), GT_C(0.008333175f)), GT_C(0.16666667f));
    GT_V c = GT_F(fma)(z, GT_F(fma)(z, GT_C(0.0013935438f), GT_C(0.04166646f)), GT_C(0.5f));
    GT_F(twofold) t = {up, 0x1p-4f / up, p.r, GT_F(fma)(z * p.r, s, -p.low), GT_F(fma)(z, c, -p.r * p.low)};
    return t;
}

GT_INLINE GT_V GT_F(sinh)(GT_V x)
{
    GT_F(twofold) t = GT_F(twofold_of)(x);
    GT_V sum = t.up + t.down, difference = t.up - t.down;
    GT_V rest = GT_F(fma)(difference, t.even, sum * t.odd);
    GT_V all = 2.0f * (GT_F(fma)(sum, t.r, rest) + difference), a = GT_F(abs)(x);
    return GT_F(copysign)(GT_F(where)(GT_IS(a < 0x1p-13f), a, all), x);
}

GT_INLINE GT_V GT_F(cosh)(GT_V x)
{
    GT_F(twofold) t = GT_F(twofold_of)(x);
    GT_V sum = t.up + t.down, difference = t.up - t.down;
    GT_V rest = GT_F(fma)(sum, t.even, difference * t.odd);
    return 2.0f * ((GT_F(fma)(difference, t.r, rest) + t.down) + t.up);
}

/* 1 - 2 / (e^2a + 1), a = |x|. The fit, for a < 0.6: (tanh a - a) / a^3 in a^2, relative error of tanh 2^-28.4. */
GT_INLINE GT_V GT_F(tanh)(GT_V x)
{
    GT_V a = GT_F(abs)(x), z = a * a;
    GT_F(reduced) p = GT_F(reduce)(2.0f * GT_F(at_most)(a, GT_C(20.0f)), GT_C(0.0f), 127);
    GT_V scale = GT_F(two_to)(p.shifted);
    GT_V far = 1.0f - 2.0f / GT_F(fma)(scale, GT_F(grown)(p), scale + 1.0f);
    GT_V q = GT_C(-0.0058979667f);
    q = GT_F(fma)(q, z, GT_C(0.020798625f));
    q = GT_F(fma)(q, z, GT_C(-0.053784717f));
    q = GT_F(fma)(q, z, GT_C(0.13331936f));
    q = GT_F(fma)(q, z, GT_C(-0.333333f));
    GT_V near = GT_F(fma)(z * a, q, a);
    return GT_F(copysign)(GT_F(where)(GT_IS(a < 0.6f), near, far), x);
}

/* ---- the logistic function ------------------------------------------------------------------------------ */

/* 1 / (1 + e^y) = unit / below, where unit is 1 or, lest e^y overflow, 2^-64. */
typedef struct {
    GT_V unit, below;
} GT_F(share);

/* Of y - less for -87 <= y < 128. From 2^23 on the unit is added to the smaller terms first. */
GT_INLINE GT_F(share) GT_F(share_of)(GT_V y, GT_V less)
{
    GT_F(reduced) p = GT_F(reduce)(y, less, 127);
    GT_U far = (GT_U)GT_IS(y > 16.0f), down = far & (64u << 23), bits = (p.shifted << 23) - down;
    GT_V scale = GT_VALUE(bits), unit = GT_VALUE(0x3f800000u - down), last = GT_VALUE(bits & far);
    GT_V first = GT_VALUE(bits & ~far) + unit;
    GT_F(share) s = {unit, GT_F(fma)(scale, GT_F(grown)(p), first) + last};
    return s;
}

/* q for x < 0 and 1 - q else, q = sigmoid(-|x|), which its derivative shares. */
GT_INLINE GT_V GT_F(sigmoid)(GT_V x)
{
    GT_F(share) s = GT_F(share_of)(GT_F(at_most)(GT_F(abs)(x), GT_C(120.0f)), GT_C(0.0f));
    GT_V q = s.unit / s.below;
    return GT_F(where)(GT_IS(x < 0.0f), q, 1.0f - q);
}

/* x sigmoid(x), -0 below -120. */
GT_INLINE GT_V GT_F(silu)(GT_V x)
{
    GT_V inside = GT_F(at_least)(x, GT_C(-120.0f));
    GT_F(share) s = GT_F(share_of)(-GT_F(at_most)(inside, GT_C(87.0f)), GT_C(0.0f));
    return inside * s.unit / s.below;
}

/* sigmoid(x) sigmoid(-x), the derivative of sigmoid. */
GT_INLINE GT_V GT_F(sigmoid_slope)(GT_V x)
{
    GT_F(share) s = GT_F(share_of)(GT_F(at_most)(GT_F(abs)(x), GT_C(120.0f)), GT_C(0.0f));
    GT_V q = s.unit / s.below;
    return q * (1.0f - q);
}
