/* gt_run.h: many steps of a model over the rows of a data set; gt_abi.h documents gt_loop. */
#ifndef GT_RUN_H
#define GT_RUN_H

#include "gt_abi.h"

#include <string.h>

/* The data that one step sees of one input: the rows that lie there, or those named by loop->rows, gathered at
 * *gather, which moves on. */
static inline const void *gt_batch(const gt_loop *loop, const unsigned char *data, int64_t row_bytes,
                                   unsigned char **gather)
{
    const int64_t first = loop->done * loop->batch;
    if (!loop->rows)
        return data + row_bytes * (loop->first + first);
    unsigned char *batch = *gather;
    for (int64_t row = 0; row < loop->batch; ++row)
        memcpy(batch + row_bytes * row, data + row_bytes * loop->rows[first + row], (size_t)row_bytes);
    *gather += (row_bytes * loop->batch + 63) / 64 * 64;
    return batch;
}

/* Runs `call` loop->steps times. `in` has room for the n pointers that a step gets, `row_bytes` says how large
 * a row of each input is. */
static inline int32_t gt_run(gt_args *args, gt_loop *loop, int64_t n, const int64_t *row_bytes, const void **in,
                             int32_t (*call)(gt_args *args))
{
    if (args->size < (int64_t)sizeof(gt_args) || loop->size < (int64_t)sizeof(gt_loop))
        return GT_ERR_ABI;
    gt_args step = *args;
    int32_t code = GT_OK;
    step.in = in;
    for (loop->done = 0; loop->done < loop->steps; ++loop->done) {
        if (loop->stop && *loop->stop)
            break;
        unsigned char *gather = loop->gather;
        for (int64_t k = 0; k < n; ++k) {
            const int batched = loop->batched && loop->batched[k] && row_bytes[k] > 0;
            in[k] = batched ? gt_batch(loop, args->in[k], row_bytes[k], &gather) : args->in[k];
        }
        code = call(&step);
        if (code != GT_OK)
            break;
        if (loop->losses)
            loop->losses[loop->done] = step.loss;
    }
    args->loss = step.loss;
    args->err_node = step.err_node;
    args->err_index = step.err_index;
    return code;
}

#endif
