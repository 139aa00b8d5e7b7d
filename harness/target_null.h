/* Nobody answers: tokens appear at fixed times, so what a run measures beyond them is the price of
 * the harness itself. */
#ifndef HARNESS_TARGET_NULL_H
#define HARNESS_TARGET_NULL_H

#include "harness/target.h"

struct target_null_opts {
    int64_t ttft_ns; /* from the sending to the first token */
    int64_t itl_ns;  /* from token to token */
    int32_t tokens;  /* of every answer; 0: as many as are asked for */
};

/* err: ERR_NOMEM. own: caller, target_close */
int target_null_open(const struct target_null_opts *o, struct target **out);

#endif
