/* Shared by the files of the quantizer's pipeline. */
#ifndef ENGINE_QUANT_QUANT_INT_H
#define ENGINE_QUANT_QUANT_INT_H

#include "engine/model/stwrite.h"
#include "engine/quant/calib.h"
#include "engine/quant/quant.h"

/* One quantized linear layer in memory, laid out as it is written. */
struct qlinear {
    uint32_t *words; /* own, [n, ceil(k/8)] */
    void *scale;     /* own, [n, k/group] of scale_type */
    int8_t *zero;    /* own, [n, k/group] or NULL */
};

struct quant_job {
    const struct model *m;
    const struct quant_opts *o;
    const struct quant_sink *sink;
    struct stwrite *st;
    struct calib *calib; /* NULL without calibration */
    double done;
    double total;
};

/* Quantizes base into *q and binds it as *lin; measures into *rep. own: caller, qlinear_fini */
int qmodule_run(struct quant_job *j,
                const struct linear *base,
                enum linear_role role,
                struct qlinear *q,
                struct linear *lin,
                struct quant_module *rep);
void qlinear_fini(struct qlinear *q);

/* Declares / writes a tensor of dense_type decoded from w, from a vector. */
int qout_declare_all(struct quant_job *j);
int qout_matrix(struct quant_job *j, const struct wmat *w);
int qout_vector(struct quant_job *j, const float *v, int32_t n);
int qout_linear(struct quant_job *j, const struct qlinear *q, const struct wmat *w);

/* Can config.json be written for this source? err: ERR_UNSUPPORTED naming what has no place there
 */
int qout_check_config(const struct model *m);

/* Writes config.json and the other small files of the folder. */
int qout_config(const struct quant_job *j, const char *dir);
int qout_text(const struct quant_job *j, const char *dir);

#endif
