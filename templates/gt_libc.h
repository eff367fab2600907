/* gt_libc.h: <math.h>, or in a program without a C library (-ffreestanding) what generated code uses of it.
 *
 * There the compiler's own are taken: most are one instruction or a few, and a program that needs the others brings
 * them along under their usual names.
 */
#ifndef GT_LIBC_H
#define GT_LIBC_H

#if !defined(__GNUC__) || __STDC_HOSTED__

#include <math.h>

#else

#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define signbit(a) __builtin_signbit(a)

#define fabs(a) __builtin_fabs(a)
#define fabsf(a) __builtin_fabsf(a)
#define copysign(a, b) __builtin_copysign(a, b)
#define copysignf(a, b) __builtin_copysignf(a, b)
#define sqrt(a) __builtin_sqrt(a)
#define sqrtf(a) __builtin_sqrtf(a)
#define floor(a) __builtin_floor(a)
#define floorf(a) __builtin_floorf(a)
#define ceil(a) __builtin_ceil(a)
#define ceilf(a) __builtin_ceilf(a)
#define trunc(a) __builtin_trunc(a)
#define truncf(a) __builtin_truncf(a)
#define rint(a) __builtin_rint(a)
#define rintf(a) __builtin_rintf(a)

#define GT_LIBM(name)                                                                                            \
    double name(double);                                                                                         \
    float name##f(float);
#define GT_LIBM_OF_TWO(name)                                                                                     \
    double name(double, double);                                                                                 \
    float name##f(float, float);
GT_LIBM(exp) GT_LIBM(exp2) GT_LIBM(expm1) GT_LIBM(log) GT_LIBM(log2) GT_LIBM(log10) GT_LIBM(log1p) GT_LIBM(cbrt)
GT_LIBM(sin) GT_LIBM(cos) GT_LIBM(tan) GT_LIBM(asin) GT_LIBM(acos) GT_LIBM(atan) GT_LIBM(sinh) GT_LIBM(cosh)
GT_LIBM(tanh) GT_LIBM(asinh) GT_LIBM(acosh) GT_LIBM(atanh) GT_LIBM(erf) GT_LIBM(erfc) GT_LIBM(lgamma) GT_LIBM(tgamma)
GT_LIBM_OF_TWO(pow) GT_LIBM_OF_TWO(hypot) GT_LIBM_OF_TWO(atan2) GT_LIBM_OF_TWO(fmod) GT_LIBM_OF_TWO(nextafter)
#undef GT_LIBM
#undef GT_LIBM_OF_TWO

#endif

#endif
