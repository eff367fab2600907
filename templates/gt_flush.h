/* gt_flush.h: denormal numbers count as zero, and results that would be denormal become zero, for a while.
 *
 * Where a gradient stays zero (a dead unit, a row of an embedding that no example names) the moments of an optimizer
 * shrink until they are denormal, and there they stay: most processors take some hundred cycles for each operation on
 * such a number. The mode belongs to the thread; the caller gets its own back.
 */
#ifndef GT_FLUSH_H
#define GT_FLUSH_H

#include <stdint.h>

#if defined(__SSE2__)
/* MXCSR: bit 15 flushes results to zero, bit 6 takes denormal operands as zero. */
typedef uint32_t gt_float_mode;
static inline gt_float_mode gt_flush(void)
{
    const gt_float_mode before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before | 0x8040u);
    return before;
}
static inline void gt_flush_end(gt_float_mode before) { __builtin_ia32_ldmxcsr(before); }
#elif defined(__aarch64__)
/* FPCR: bit 24 does both. */
typedef uint64_t gt_float_mode;
static inline gt_float_mode gt_flush(void)
{
    gt_float_mode before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" : : "r"(before | (1u << 24)) : "memory");
    return before;
}
static inline void gt_flush_end(gt_float_mode before) { __asm__ volatile("msr fpcr, %0" : : "r"(before) : "memory"); }
#else
/* No mode that we know of: denormal numbers stay what they are. */
typedef int gt_float_mode;
static inline gt_float_mode gt_flush(void) { return 0; }
static inline void gt_flush_end(gt_float_mode before) { (void)before; }
#endif

#endif
