/* gt_vector.h: vectors of GT_VECTOR_BYTES bytes (16, 32 or 64, defined before this is included).
 *
 * gt_v_<tag> is a vector in a register; splat fills one, load and store move one to and from any address.
 * Operators and VFMA work on whole vectors. The width must be one that the target has registers for.
 */
#ifndef GT_VECTOR_H
#define GT_VECTOR_H

#include "gt_scalar.h"

#define GT_LANES_2(s) s, s
#define GT_LANES_4(s) GT_LANES_2(s), GT_LANES_2(s)
#define GT_LANES_8(s) GT_LANES_4(s), GT_LANES_4(s)
#define GT_LANES_16(s) GT_LANES_8(s), GT_LANES_8(s)

#define GT_VECTOR(tag, type, lanes)                                                                              \
    typedef type gt_v_##tag __attribute__((vector_size(GT_VECTOR_BYTES)));                                       \
    typedef type gt_u_##tag __attribute__((vector_size(GT_VECTOR_BYTES), aligned(sizeof(type)), may_alias));     \
    GT_INLINE gt_v_##tag gt_splat_##tag(type s) { return (gt_v_##tag){lanes(s)}; }                               \
    GT_INLINE gt_v_##tag gt_load_##tag(const type *p) { return *(const gt_u_##tag *)p; }                         \
    GT_INLINE void gt_store_##tag(type *p, gt_v_##tag v) { *(gt_u_##tag *)p = v; }

#if GT_VECTOR_BYTES == 16
GT_VECTOR(f32, float, GT_LANES_4)
GT_VECTOR(f64, double, GT_LANES_2)
#elif GT_VECTOR_BYTES == 32
GT_VECTOR(f32, float, GT_LANES_8)
GT_VECTOR(f64, double, GT_LANES_4)
#else
GT_VECTOR(f32, float, GT_LANES_16)
GT_VECTOR(f64, double, GT_LANES_8)
#endif

#endif
