/* gt_trig_f32.h: angles, float32: sin cos tan asin acos atan atan2, and hypot. Included by gt_math_f32.h after
 * gt_exp_f32.h, once for float and once for vectors: no include guard.
 */

/* ---- from angles ---------------------------------------------------------------------------------------- */

/* x = quadrant pi/2 + hi + lo, |hi| <= pi/4 and a little more. */
typedef struct {
    GT_V hi, lo;
    GT_U quadrant; /* modulo 4 */
} GT_F(angle);

/* Replace the angles of the lanes that are far. It is rarely called and long: compiled once, not at every sine. */
GT_APART void GT_F(far_angles)(const GT_V *x, const GT_I *far, GT_F(angle) *a)
{
    for (int l = 0; l < GT_PER; l++)
        if (GT_LANE(*far, l)) {
            float hi, lo;
            GT_LANE(a->quadrant, l) = gt_far_angle(GT_LANE(*x, l), &hi, &lo);
            GT_LANE(a->hi, l) = hi;
            GT_LANE(a->lo, l) = lo;
        }
}

/* Up to 2^17 with pi/2 as the sum of three floats: the first product is subtracted exactly, of the second the error is
 * kept. Beyond, one lane after the other. */
GT_INLINE GT_F(angle) GT_F(angle_of)(GT_V x)
{
    GT_V shifted = GT_F(fma)(x, GT_C(0.63661975f), GT_C(GT_ROUND_F32)), k = shifted - GT_ROUND_F32;
    GT_V upper = GT_F(less)(x, k, GT_C(1.5707964f));
    GT_F(pair) p = GT_F(exact_product)(k, GT_C(4.371139e-08f)), near = GT_F(exact_sum)(upper, p.hi);
    GT_V low = GT_F(fma)(k, GT_C(1.7151245e-15f), near.lo + p.lo), hi = near.hi + low;
    GT_F(angle) a = {hi, low - (hi - near.hi), GT_BITS(shifted)};
    GT_I far = GT_IS(GT_F(abs)(x) > 0x1p17f);
    if (GT_ANY(far)) {
        GT_V given = x;
        GT_F(angle) all = a;
        GT_F(far_angles)(&given, &far, &all);
        a = all;
    }
    return a;
}

/* The fit: (sin r - r) / r^3 in r^2, relative error of sin r 2^-27.9. */
GT_INLINE GT_V GT_F(sine)(GT_F(angle) a)
{
    GT_V z = a.hi * a.hi;
    GT_V q = GT_F(fma)(z, GT_F(fma)(z, GT_C(-0.00019518101f), GT_C(0.008332188f)), GT_C(-0.16666655f));
    return a.hi + GT_F(fma)(z * a.hi, q, a.lo);
}

/* The fit: (cos r - 1 + r^2 / 2) / r^4 in r^2, error of cos r 2^-33.1. */
GT_INLINE GT_V GT_F(cosine)(GT_F(angle) a)
{
    GT_V z = a.hi * a.hi;
    GT_V q = GT_F(fma)(z, GT_F(fma)(z, GT_C(2.443067e-05f), GT_C(-0.0013887301f)), GT_C(0.041666646f));
    return 1.0f + GT_F(fma)(z, GT_C(-0.5f), GT_F(fma)(z * z, q, -a.hi * a.lo));
}

GT_INLINE GT_V GT_F(wave)(GT_F(angle) a, GT_U quadrant)
{
    GT_V value = GT_F(where)(GT_IS((quadrant & 1u) != 0u), GT_F(cosine)(a), GT_F(sine)(a));
    return GT_VALUE(GT_BITS(value) ^ ((quadrant & 2u) << 30));
}

GT_INLINE GT_V GT_F(sin)(GT_V x)
{
    GT_F(angle) a = GT_F(angle_of)(x);
    return GT_F(where)(GT_IS(GT_F(abs)(x) < 0x1p-12f), x, GT_F(wave)(a, a.quadrant));
}

GT_INLINE GT_V GT_F(cos)(GT_V x)
{
    GT_F(angle) a = GT_F(angle_of)(x);
    return GT_F(wave)(a, a.quadrant + 1u);
}

/* In odd quadrants -1 / tan of what is left, corrected by one step of Newton's. The fit: (tan r - r) / r^3 in r^2,
 * relative error of tan r 2^-29.5. */
GT_INLINE GT_V GT_F(tan)(GT_V x)
{
    GT_F(angle) a = GT_F(angle_of)(x);
    GT_V z = a.hi * a.hi;
    GT_V q = GT_C(0.0043750177f);
    q = GT_F(fma)(q, z, GT_C(9.354155e-05f));
    q = GT_F(fma)(q, z, GT_C(0.010831126f));
    q = GT_F(fma)(q, z, GT_C(0.021284835f));
    q = GT_F(fma)(q, z, GT_C(0.05405915f));
    q = GT_F(fma)(q, z, GT_C(0.13332674f));
    q = GT_F(fma)(q, z, GT_C(0.3333335f));
    GT_V rest = GT_F(fma)(z * a.hi, q, GT_F(fma)(z, a.lo, a.lo)), even = a.hi + rest, odd = -1.0f / even;
    GT_F(pair) p = GT_F(exact_product)(odd, a.hi);
    odd = GT_F(fma)(odd, (1.0f + p.hi) + GT_F(fma)(odd, rest, p.lo), odd);
    GT_V value = GT_F(where)(GT_IS((a.quadrant & 1u) != 0u), odd, even);
    return GT_F(where)(GT_IS(GT_F(abs)(x) < 0x1p-13f), x, value);
}

/* ---- to angles ------------------------------------------------------------------------------------------ */

/* asin(s) - s for |s| <= 1/2, z = s^2. The fit: (asin s - s) / s^3 in z, relative error of asin s 2^-27.6. */
GT_INLINE GT_V GT_F(asin_rest)(GT_V s, GT_V z)
{
    GT_V q = GT_C(0.04222344f);
    q = GT_F(fma)(q, z, GT_C(0.024146501f));
    q = GT_F(fma)(q, z, GT_C(0.045476913f));
    q = GT_F(fma)(q, z, GT_C(0.074952476f));
    q = GT_F(fma)(q, z, GT_C(0.16666754f));
    return z * s * q;
}

/* Beyond 1/2 by asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)). pi/2 is 1.5707964f - 4.37e-8. */
GT_INLINE GT_V GT_F(asin)(GT_V x)
{
    GT_V a = GT_F(abs)(x), half = 0.5f - 0.5f * a;
    GT_I far = GT_IS(a > 0.5f);
    GT_V z = GT_F(where)(far, half, a * a), s = GT_F(where)(far, GT_F(sqrt)(half), a), rest = GT_F(asin_rest)(s, z);
    GT_V turned = 1.5707964f - 2.0f * (s + (rest + 2.1855695e-08f));
    return GT_F(copysign)(GT_F(where)(far, turned, s + rest), x);
}

GT_INLINE GT_V GT_F(acos)(GT_V x)
{
    GT_V a = GT_F(abs)(x), half = 0.5f - 0.5f * a;
    GT_I far = GT_IS(a > 0.5f);
    GT_V z = GT_F(where)(far, half, x * x), s = GT_F(where)(far, GT_F(sqrt)(half), x), rest = GT_F(asin_rest)(s, z);
    GT_V near = 1.5707964f - (s + (rest + 4.371139e-08f));
    GT_V left = 3.1415927f - 2.0f * (s + (rest + 4.371139e-08f)), right = 2.0f * (s + rest);
    return GT_F(where)(far, GT_F(where)(GT_IS(x < 0.0f), left, right), near);
}

/* atan(q) for 0 <= q <= 1. The fit: (atan q - q) / q^3 in q^2, relative error of atan q 2^-28.5; then 2^-27, since
 * one coefficient was moved by 5 units so that 1 gives pi/4 rounded. */
GT_INLINE GT_V GT_F(arc)(GT_V q)
{
    GT_V z = q * q;
    GT_V p = GT_C(-0.001788059f);
    p = GT_F(fma)(p, z, GT_C(0.010889134f));
    p = GT_F(fma)(p, z, GT_C(-0.03112925f));
    p = GT_F(fma)(p, z, GT_C(0.05790765f));
    p = GT_F(fma)(p, z, GT_C(-0.08400465f));
    p = GT_F(fma)(p, z, GT_C(0.10951143f));
    p = GT_F(fma)(p, z, GT_C(-0.1426404f));
    p = GT_F(fma)(p, z, GT_C(0.1999853f));
    p = GT_F(fma)(p, z, GT_C(-0.333333f));
    return GT_F(fma)(z * q, p, q);
}

GT_INLINE GT_V GT_F(atan)(GT_V x)
{
    GT_V a = GT_F(abs)(x);
    GT_I far = GT_IS(a > 1.0f);
    GT_V arc = GT_F(arc)(GT_F(where)(far, 1.0f / a, a)), turned = 1.5707964f - (arc + 4.371139e-08f);
    return GT_F(copysign)(GT_F(where)(far, turned, arc), x);
}

/* The arc from the nearer axis: 0, pi/2 or pi plus or minus that, then the sign of y. */
GT_INLINE GT_V GT_F(atan2)(GT_V y, GT_V x)
{
    GT_V ax = GT_F(abs)(x), ay = GT_F(abs)(y);
    GT_I steep = GT_IS(ay > ax), left = (GT_I)GT_BITS(x) >> 31;
    GT_V lesser = GT_F(where)(steep, ax, ay), greater = GT_F(where)(steep, ay, ax);
    GT_V q = lesser / GT_F(where)(GT_IS(greater == 0.0f), GT_C(1.0f), greater);
    GT_I diagonal = GT_IS(lesser == INFINITY) & GT_IS(greater == INFINITY);
    GT_V arc = GT_F(arc)(GT_F(where)(diagonal, GT_C(1.0f), q));
    GT_V turn = GT_VALUE(GT_BITS(arc) ^ ((GT_U)(steep ^ left) & 0x80000000u));
    GT_V axis = GT_F(where)(steep, GT_C(1.5707964f), GT_F(where)(left, GT_C(3.1415927f), GT_C(0.0f)));
    GT_V lack = GT_F(where)(steep, GT_C(4.371139e-08f), GT_F(where)(left, GT_C(8.742278e-08f), GT_C(0.0f)));
    return GT_F(copysign)(axis + (turn - lack), y);
}

/* ---- distance ------------------------------------------------------------------------------------------- */

/* The squares are kept in range by powers of two. An infinite side is infinite, whatever the other. */
GT_INLINE GT_V GT_F(hypot)(GT_V x, GT_V y)
{
    GT_V ax = GT_F(abs)(x), ay = GT_F(abs)(y), size = GT_F(where)(GT_IS(ay > ax), ay, ax);
    GT_I huge = GT_IS(size >= 0x1p60f), tiny = GT_IS(size < 0x1p-40f);
    GT_V there = GT_F(where)(huge, GT_C(0x1p-90f), GT_F(where)(tiny, GT_C(0x1p90f), GT_C(1.0f)));
    GT_V back = GT_F(where)(huge, GT_C(0x1p90f), GT_F(where)(tiny, GT_C(0x1p-90f), GT_C(1.0f)));
    GT_V a = ax * there, b = ay * there;
    GT_V length = GT_F(sqrt)(GT_F(fma)(a, a, b * b)) * back;
    return GT_F(where)(GT_IS(ax == INFINITY) | GT_IS(ay == INFINITY), GT_C(INFINITY), length);
}
