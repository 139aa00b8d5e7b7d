/* The experts of a layer: each row goes through the few that its router picks. */
#ifndef ENGINE_RUN_MOE_H
#define ENGINE_RUN_MOE_H

#include "engine/model/weights.h"

struct forward;

/* Workspace. Letters: T largest batch, A experts a row goes through. */
struct moe {
    float *logits;   /* backend [T,n_expert] */
    float *x;        /* backend [T,E] the rows of one expert */
    float *y;        /* backend [T,E] what it makes of them */
    int32_t *expert; /* own, host [T,A] chosen by each row */
    float *weight;   /* own, host [T,A] */
    int32_t *first;  /* own, host [n_expert+1] first place of each expert in row and share */
    int32_t *row;    /* own, host [T*A] rows by expert, ascending */
    float *share;    /* own, host [T*A] their weights */
};

/* Sizes the workspace from f->w and f->tok_max.
 * err: ERR_NOMEM; what was made is freed by moe_fini. own: caller, moe_fini */
int moe_init(struct moe *m, struct forward *f);
void moe_fini(struct moe *m, struct forward *f);

/* x[t,:] += sum over the experts e of row t, ascending, of weight_e * down_e(act(gate_e(h)) *
 * up_e(h)), h = f->h [T,E].
 * out: f->gate and f->up are overwritten. cost: one matrix product a used expert and linear */
int moe_run(struct forward *f, const struct layer_weights *lw, int32_t n_tok, float *x);

#endif
