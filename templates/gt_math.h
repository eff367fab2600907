/* gt_math.h: the mathematical functions of generated code, float32 and float64.
 *
 * A function is called gt_<name>_f32 or gt_<name>_f64, and gt_<name>_v_f32 for vectors where GT_WIDTH is defined
 * (gt_vector.h). Right for every input: signed zeros, denormals, infinities and NaN; nothing is flushed to zero;
 * never an errno, never undefined. Compile with -ffp-contract=off and never with -ffast-math, as gt_scalar.h says.
 *
 * float32 functions compute in float, all lanes alike and without branches, but for angles beyond 2^17; a lane of a
 * vector gets the bits that the same value gets alone, in vectors of any width and from any compiler. With fused
 * multiply-add the bits are others than without. float64 functions are for one value; they carry a low part (gt_dd)
 * where one double would lose too much.
 *
 *   name              float32   float64
 *   exp               1.05      0.62 own
 *   exp2              1.10      0.70 libm
 *   expm1             1.35      0.88 own
 *   log               0.90      0.70 libm
 *   log2              1.30      0.70 libm
 *   log10             1.40      1.60 libm
 *   log1p             1.55      0.80 libm
 *   sin               1.05      0.70 libm
 *   cos               1.05      0.70 libm
 *   tan               1.30      0.70 libm
 *   asin              1.70      0.70 libm
 *   acos              1.15      0.70 libm
 *   atan              1.55      0.70 libm
 *   atan2             1.70      0.70 libm
 *   sinh              1.30      0.95 own
 *   cosh              1.15      0.66 own
 *   tanh              1.25      0.71 own
 *   sigmoid           1.75      0.62 own
 *   log_sigmoid       1.40      1.50 libm
 *   softplus          1.40      1.50 libm
 *   silu              1.80      0.62 own
 *   erf               1.05      1.00 libm
 *   erfc              1.90      0.80 own
 *   gelu              1.95      0.62 own
 *   gelu_tanh         1.90      0.62 own
 *   pow               0.51      0.70 libm
 *   hypot             1.20      0.70 libm
 *   sigmoid_slope     2.60      0.62 own
 *   gelu_slope        2.50      0.75 own
 *   gelu_tanh_slope   4.00      0.75 own
 *
 * The figures bound the largest error seen, in units in the last place of the exact result, with and without fused
 * multiply-add: float32 over all bit patterns between 2^-15 and 2^8 (logarithms: from 2^-25) and every 61st of the
 * others (pow, hypot and atan2: 6e5 pairs), float64 at 25000 points and more.
 * own: formulas as written in the headers, their polynomials fitted with the Remez exchange in 40 and 50 digits (gelu
 * and its slope in float32: by least squares, weighted until the error was even) to the function named beside them;
 * the coefficients in float were rounded one after the other, from the constant up, and what remained was fitted anew
 * each time. libm: the C library's double function, here glibc 2.36; log_sigmoid and softplus in float64 are formulas
 * of ours around its log1p.
 *
 * The slopes are the derivatives of sigmoid and of both forms of gelu. Those of gelu cross zero at -0.7518 and -0.7525:
 * from -1 to -1/2 the error of gelu_tanh_slope is below 4e-8 in float32, and those of both are below their bound or
 * 1e-17 in float64.
 *
 * What underflows is rounded as any denormal: the absolute error is then below 1e-45 or 5e-324. At -infinity,
 * where the bare formula would give NaN, gelu, gelu_tanh and silu are -0, their limit, and their slopes 0. sqrt,
 * rsqrt and reciprocal are in gt_scalar.h and gt_vector.h.
 */
#ifndef GT_MATH_H
#define GT_MATH_H

#include "gt_math_f32.h"
#include "gt_math_f64.h"

#endif
