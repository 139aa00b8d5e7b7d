/* Stored layouts of quantized linear layers, brought to struct wmat without decoding.
 * src: compressed-tensors, compressors/pack_quantized and quantization/quant_config */
#ifndef ENGINE_MODEL_QFORMAT_H
#define ENGINE_MODEL_QFORMAT_H

#include "engine/model/ckpt.h"
#include "kernels/dtype.h"

/* What config.json says about quantization. */
struct qformat {
    bool present;
    char text[96]; /* "pack-quantized, int4, group 64, symmetric"; "none" */
};

/* Reads quantization_config. err: ERR_UNSUPPORTED naming a method, format or scheme that is not
 * computed; ERR_FORMAT */
int qformat_read(const json_t *config, const char *where, struct qformat *out);

/* Memory that a layout needs beside the map is asked from here. */
typedef void *(*qformat_alloc)(void *ctx, int64_t bytes);

/* Binds module ("model.layers.0.mlp.up_proj") in pack-quantized layout as a [n,k] matrix.
 * out:  *w points into the map; zero points are unpacked into memory from alloc
 * err:  ERR_NOTFOUND when there is no <module>.weight_packed; ERR_FORMAT naming tensor, shape found
 *       and shape wanted; ERR_UNSUPPORTED for weight_g_idx; ERR_NOMEM */
int qformat_bind_packed(const struct ckpt *c,
                        const char *module,
                        int32_t n,
                        int32_t k,
                        qformat_alloc alloc,
                        void *ctx,
                        struct wmat *w);

#endif
