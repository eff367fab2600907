/* gt_frame.h: what Python adds to gt_abi.h, the block that one bound call owns. */
#ifndef GT_FRAME_H
#define GT_FRAME_H

#include "gt_abi.h"

/* A call made ready: its arguments, the model's functions, and what the last call returned. */
typedef struct gt_frame {
    gt_args args;
    int32_t (*call)(gt_args *);
    int32_t (*run)(gt_args *, gt_loop *);
    int32_t status;
} gt_frame;

#endif
