/* gt_time.h: how long each kernel takes; only in models that are built with GT_TIME=1.
 *
 * The including file defines GT_TIMED_MODEL, the model's name, and GT_TIMED_KERNELS, the kernels' names as
 * strings with commas between. Times are kept in tables of this library (such a model is not for use from
 * several threads) and printed to standard error when the process ends, the slowest kernel first.
 */
#ifndef GT_TIME_H
#define GT_TIME_H

#include <stdio.h>
#include <time.h>

static const char *const gt_time_names[] = {GT_TIMED_KERNELS};

#define GT_TIME_COUNT (int64_t)(sizeof gt_time_names / sizeof *gt_time_names)

static double gt_time_total[sizeof gt_time_names / sizeof *gt_time_names]; /* microseconds */
static double gt_time_least[sizeof gt_time_names / sizeof *gt_time_names];
static int64_t gt_time_calls[sizeof gt_time_names / sizeof *gt_time_names];

static double gt_time_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

/* Kernel number `kernel` ran from `start` until now. */
static void gt_time_note(int64_t kernel, double start)
{
    const double took = gt_time_now() - start;
    if (gt_time_calls[kernel] == 0 || took < gt_time_least[kernel])
        gt_time_least[kernel] = took;
    gt_time_total[kernel] += took;
    ++gt_time_calls[kernel];
}

static void __attribute__((destructor)) gt_time_print(void)
{
    double all = 0;
    for (int64_t i = 0; i < GT_TIME_COUNT; ++i)
        all += gt_time_total[i];
    if (all == 0)
        return;
    fprintf(stderr, "GT_TIME %s: %.1f us in kernels\n", GT_TIMED_MODEL, all);
    fprintf(stderr, "  share      calls   least us    mean us  kernel\n");
    for (int64_t shown = 0; shown < GT_TIME_COUNT; ++shown) {
        int64_t most = 0;
        for (int64_t i = 1; i < GT_TIME_COUNT; ++i)
            if (gt_time_total[i] > gt_time_total[most])
                most = i;
        const double total = gt_time_total[most], calls = (double)gt_time_calls[most];
        if (total > 0)
            fprintf(stderr, "  %4.1f %% %10.0f %10.2f %10.2f  %s\n", 100 * total / all, calls, gt_time_least[most],
                    total / calls, gt_time_names[most]);
        gt_time_total[most] = -1;
    }
}

#endif
