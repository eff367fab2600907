/* gt_erf_f32.h: the error function and gelu, float32: erf erfc gelu gelu_tanh and the slopes of both gelu. Included
 * by gt_math_f32.h after gt_exp_f32.h, once for float and once for vectors: no include guard.
 *
 * With a = |x|: e^(a^2) erfc(a) and its like are smooth and flat functions of w = 1 / (a + shift) or of
 * t = (a - middle) / (a + shift), and decay is left to an exponential whose argument keeps its low part. What is
 * relative to a vanishing value (erf near 0, the tails) is a product to the end.
 */

/* hi (1 + lo) = 1 / (a + shift). */
GT_INLINE GT_F(pair) GT_F(inverse)(GT_V a, float shift)
{
    GT_V w = 1.0f / (a + shift), more = GT_F(at_least)(a, GT_C(shift)), fewer = GT_F(at_most)(a, GT_C(shift));
    GT_F(pair) i = {w, GT_F(less)(GT_F(less)(GT_C(1.0f), w, more), w, fewer)};
    return i;
}

/* The last step of a polynomial, q v + c for |c| > |q v|, with its low part. */
GT_INLINE GT_F(pair) GT_F(last_step)(GT_V q, GT_V v, float c)
{
    GT_V hi = GT_F(fma)(q, v, GT_C(c));
    GT_F(pair) p = {hi, -GT_F(less)(hi - c, q, v)};
    return p;
}

/* n e^-square, down to denormals, for a square up to 152 ln 2: 2^64 times it is no denormal. The reduced argument is
 * not rounded. */
GT_INLINE GT_V GT_F(decayed_finely)(GT_F(pair) n, GT_F(pair) square)
{
    GT_F(reduced) p = GT_F(reduce)(-square.hi, square.lo, 127 + 64);
    GT_V low = GT_F(fma)(n.hi, -p.low, n.lo), bend = p.r * p.r * GT_F(power_rest)(p.r);
    GT_V rest = GT_F(fma)(n.hi, bend, GT_F(fma)(low, p.r + bend, low));
    return (n.hi + GT_F(fma)(n.hi, p.r, rest)) * GT_F(two_to)(p.shifted) * 0x1p-64f;
}

/* The same for half a unit more of error; where products are rounded before they are added, that would be too much. */
GT_INLINE GT_V GT_F(decayed)(GT_F(pair) n, GT_F(pair) square)
{
#if GT_FUSED
    GT_F(reduced) p = GT_F(reduce)(-square.hi, square.lo, 127 + 64);
    return (n.hi + GT_F(fma)(n.hi, GT_F(grown)(p), n.lo)) * GT_F(two_to)(p.shifted) * 0x1p-64f;
#else
    return GT_F(decayed_finely)(n, square);
#endif
}

/* ---- erf, erfc ------------------------------------------------------------------------------------------ */

/* erfc(a) for 0.8 <= a <= 10.25, where it underflows. The fit: e^(a^2) erfc(a) / w in w = 1 / (a + 1.25), relative
 * error 2^-27.9. */
GT_INLINE GT_V GT_F(erfc_far)(GT_V a)
{
    GT_F(pair) w = GT_F(inverse)(a, 1.25f);
    GT_V q = GT_C(3.6607752f);
    q = GT_F(fma)(q, w.hi, GT_C(-10.426014f));
    q = GT_F(fma)(q, w.hi, GT_C(11.471801f));
    q = GT_F(fma)(q, w.hi, GT_C(-5.1155076f));
    q = GT_F(fma)(q, w.hi, GT_C(0.04060597f));
    q = GT_F(fma)(q, w.hi, GT_C(-0.07993314f));
    q = GT_F(fma)(q, w.hi, GT_C(0.61013716f));
    q = GT_F(fma)(q, w.hi, GT_C(0.7047212f));
    GT_F(pair) p = GT_F(last_step)(q, w.hi, 0.5642002f), n = GT_F(exact_product)(p.hi, w.hi);
    n.lo = GT_F(fma)(n.hi, w.lo, GT_F(fma)(p.lo, w.hi, n.lo));
    return GT_F(decayed_finely)(n, GT_F(exact_product)(a, a));
}

/* erf(x) / x - 1 in z = x^2, |x| <= 0.8. The fit: (erf(x) / x - 1.1283792f) / z, relative error of erf 2^-28.1. */
GT_INLINE GT_V GT_F(erf_near)(GT_V z)
{
    GT_V q = GT_C(-0.00065422495f);
    q = GT_F(fma)(q, z, GT_C(0.0050868657f));
    q = GT_F(fma)(q, z, GT_C(-0.026822243f));
    q = GT_F(fma)(q, z, GT_C(0.11283162f));
    q = GT_F(fma)(q, z, GT_C(-0.37612608f));
    return GT_F(fma)(q, z, GT_C(0.12837917f));
}

GT_INLINE GT_V GT_F(erf)(GT_V x)
{
    GT_V a = GT_F(abs)(x), far = 1.0f - GT_F(erfc_far)(GT_F(at_most)(a, GT_C(10.25f)));
    GT_V near = GT_F(fma)(a, GT_F(erf_near)(a * a), a);
    return GT_F(copysign)(GT_F(where)(GT_IS(a < 0.8f), near, far), x);
}

GT_INLINE GT_V GT_F(erfc)(GT_V x)
{
    GT_V a = GT_F(abs)(x), right = GT_F(erfc_far)(GT_F(at_most)(a, GT_C(10.25f)));
    GT_V near = GT_F(fma)(-x, GT_F(erf_near)(x * x), 1.0f - x);
    return GT_F(where)(GT_IS(a < 0.8f), near, GT_F(where)(GT_IS(x < 0.0f), 2.0f - right, right));
}

/* ---- gelu: x Phi(x), Phi the normal distribution function ----------------------------------------------- */

/* x (1/2 + x p(x^2)) near 0, else max(x, -0) - a Phi(-a), which leaves -0 where it underflows. The fits:
 * (Phi(x) - 1/2) / x in x^2 for a < 1/2, relative error of Phi 2^-28.7, and a e^(a^2/2) Phi(-a), which is flat, so that
 * the rounding of t tells little, in t = (a - 1) / (a + 2.75) for a up to 14.5, relative error 2^-28. */
GT_INLINE GT_V GT_F(gelu)(GT_V x)
{
    GT_V a = GT_F(at_most)(GT_F(abs)(x), GT_C(14.5f)), z = a * a, t = (a - 1.0f) / (a + 2.75f);
    GT_V q = GT_C(-0.0066814423f);
    q = GT_F(fma)(q, t, GT_C(0.011189282f));
    q = GT_F(fma)(q, t, GT_C(0.01173723f));
    q = GT_F(fma)(q, t, GT_C(-0.011372089f));
    q = GT_F(fma)(q, t, GT_C(-0.059688505f));
    q = GT_F(fma)(q, t, GT_C(0.017339827f));
    q = GT_F(fma)(q, t, GT_C(0.3015102f));
    q = GT_F(fma)(q, t, GT_C(-0.59249556f));
    q = GT_F(fma)(q, t, GT_C(0.46580365f));
    GT_V tail = GT_F(decayed)(GT_F(last_step)(q, t, 0.2615783f), GT_F(exact_product)(0.5f * a, a));
    GT_V far = GT_F(at_least)(x, GT_C(-0.0f)) - tail;
    GT_V p = GT_C(-0.0011228842f);
    p = GT_F(fma)(p, z, GT_C(0.009961191f));
    p = GT_F(fma)(p, z, GT_C(-0.06648948f));
    p = GT_F(fma)(p, z, GT_C(0.39894226f));
    return GT_F(where)(GT_IS(a < 0.5f), x * GT_F(fma)(x, p, GT_C(0.5f)), far);
}

/* Phi(x) + x Phi'(x), the derivative of gelu; s for x <= 0 and 1 - s for x > 0, s = (root - a) e^(-a^2/2) Q. The fit:
 * Q = (e^(a^2/2) Phi(-a) - a / sqrt(2 pi)) / (root - a) in t = (a - 0.765625) / (a + 3.5), relative error 2^-26.9. The
 * 0.765625 is one at which Q is a float almost exactly. */
GT_INLINE GT_V GT_F(gelu_slope)(GT_V x)
{
    GT_V a = GT_F(at_most)(GT_F(abs)(x), GT_C(14.75f)), t = (a - 0.765625f) / (a + 3.5f);
    GT_V q = GT_C(0.0019416057f);
    q = GT_F(fma)(q, t, GT_C(-0.005370425f));
    q = GT_F(fma)(q, t, GT_C(-0.0020357834f));
    q = GT_F(fma)(q, t, GT_C(0.018405186f));
    q = GT_F(fma)(q, t, GT_C(0.010803464f));
    q = GT_F(fma)(q, t, GT_C(-0.13645212f));
    q = GT_F(fma)(q, t, GT_C(0.29766494f));
    q = GT_F(fma)(q, t, GT_C(-0.35725647f));
    GT_V d = (0.75179154f - a) - 1.211445e-08f;
    GT_F(pair) f = GT_F(last_step)(q, t, 0.57124066f), n = GT_F(exact_product)(f.hi, d);
    n.lo = GT_F(fma)(f.lo, d, n.lo);
    GT_V left = GT_F(decayed)(n, GT_F(exact_product)(0.5f * a, a));
    return GT_F(where)(GT_IS(x > 0.0f), 1.0f - left, left);
}

/* ---- gelu by the tangent: x sigmoid(v), v = x (A + B x^2), A = 2 sqrt(2 / pi), B = 0.044715 A -------------- */

/* v = hi + lo, whose low part tells in the tail, and B x^2. A is taken as 1.5957642f, of 17 bits, which leaves its
 * subtraction from the sum exact, and 5e-6. */
typedef struct {
    GT_V hi, lo, growth;
} GT_F(bent);

GT_INLINE GT_F(bent) GT_F(bent_of)(GT_V x)
{
    GT_F(pair) square = GT_F(exact_product)(x, x);
    GT_V slope = GT_F(fma)(square.hi, GT_C(0.071354814f), GT_C(1.5957642f)), growth = slope - 1.5957642f;
    GT_V low = GT_F(fma)(square.lo, GT_C(0.071354814f), square.hi * 2.3988325e-09f);
    low = low - GT_F(less)(growth, square.hi, GT_C(0.071354814f));
    GT_F(pair) v = GT_F(exact_product)(x, slope);
    GT_F(bent) b = {v.hi, GT_F(fma)(x, low + 4.9614496e-06f, v.lo), growth + low};
    return b;
}

/* -a q for x < 0 and x - a q else, q = sigmoid(-v(a)). What its derivative shares with it is computed once where a
 * loop asks for both. */
GT_INLINE GT_V GT_F(gelu_tanh)(GT_V x)
{
    GT_V a = GT_F(at_most)(GT_F(abs)(x), GT_C(11.5f));
    GT_F(bent) v = GT_F(bent_of)(a);
    GT_F(share) s = GT_F(share_of)(v.hi, -v.lo);
    GT_V tail = a * s.unit / s.below;
    return GT_F(where)(GT_IS(x < 0.0f), -tail, x - tail);
}

/* Its derivative: s for x <= 0 and 1 - s for x > 0, s = q (1 - a v'(a) (1 - q)) and q = sigmoid(-v(a)). With
 * a v' = v + 2 B a^3 the bracket is (1 - a v') + a v' q, where little cancels. */
GT_INLINE GT_V GT_F(gelu_tanh_slope)(GT_V x)
{
    GT_V a = GT_F(at_most)(GT_F(abs)(x), GT_C(11.5f));
    GT_F(bent) v = GT_F(bent_of)(a);
    GT_F(share) s = GT_F(share_of)(v.hi, -v.lo);
    GT_V q = s.unit / s.below, twice = 2.0f * a, rest = GT_F(fma)(-twice, v.growth, (1.0f - v.hi) - v.lo);
    GT_V bracket = GT_F(fma)(1.0f - rest, q, rest);
    GT_V left = bracket * s.unit / s.below;
    return GT_F(where)(GT_IS(x > 0.0f), 1.0f - left, left);
}
