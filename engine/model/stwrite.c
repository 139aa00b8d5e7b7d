/* Header and data as in safetensors.c; the header is padded with blanks to a multiple of 8, so that
 * data begins aligned. Names are JSON-escaped by jansson. */
#include "engine/model/stwrite.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"

struct stwrite {
    struct filew file;
    json_t *head;   /* own */
    int64_t n_data; /* declared bytes */
    int64_t n_given;
};

static const char *type_name(enum dtype t) {
    switch (t) {
    case DTYPE_F32:
    case DTYPE_F16:
    case DTYPE_BF16:
    case DTYPE_F64:
    case DTYPE_I8:
    case DTYPE_U8:
    case DTYPE_I16:
    case DTYPE_I32:
    case DTYPE_I64:
    case DTYPE_BOOL:
    case DTYPE_F8_E4M3:
    case DTYPE_F8_E5M2:
    case DTYPE_F8_E8M0:
    case DTYPE_F8_E4M3FNUZ:
    case DTYPE_F8_E5M2FNUZ:
    case DTYPE_F6_E2M3:
    case DTYPE_F6_E3M2:
    case DTYPE_F4:
    case DTYPE_U16:
    case DTYPE_U32:
    case DTYPE_U64:
    case DTYPE_C64:
        return dtype_info(t)->name;
    case DTYPE_Q4_0:
    case DTYPE_Q4_1:
    case DTYPE_Q8_0:
    case DTYPE_Q5_0:
    case DTYPE_Q5_1:
    case DTYPE_Q2_K:
    case DTYPE_Q3_K:
    case DTYPE_Q4_K:
    case DTYPE_Q5_K:
    case DTYPE_Q6_K:
    case DTYPE_Q8_K:
    case DTYPE_IQ4_NL:
    case DTYPE_IQ4_XS:
    case DTYPE_TQ1_0:
    case DTYPE_TQ2_0:
    case DTYPE_MXFP4:
    case DTYPE_NVFP4:
    case DTYPE_Q8_1:
    case DTYPE_IQ1_S:
    case DTYPE_IQ1_M:
    case DTYPE_IQ2_XXS:
    case DTYPE_IQ2_XS:
    case DTYPE_IQ2_S:
    case DTYPE_IQ3_XXS:
    case DTYPE_IQ3_S:
    case DTYPE_W2:
    case DTYPE_W3:
    case DTYPE_W4:
    case DTYPE_W5:
    case DTYPE_W6:
    case DTYPE_W7:
    case DTYPE_W8:
    case DTYPE_N:
        break;
    }
    return NULL;
}

int stwrite_open(const char *path, struct stwrite **out) {
    struct stwrite *w = mem_calloc(MEM_MODEL, (int64_t)sizeof *w);
    if (!w) {
        return ERR_NOMEM;
    }
    w->head = json_object();
    if (!w->head) {
        mem_free(w);
        return err_set(ERR_NOMEM, "%s: cannot start the header", path);
    }
    json_object_set_new(w->head, "__metadata__", json_pack("{s:s}", "format", "pt"));
    int rc = filew_open(&w->file, path);
    if (rc) {
        json_decref(w->head);
        mem_free(w);
        return rc;
    }
    *out = w;
    return 0;
}

int stwrite_declare(
    struct stwrite *w, const char *name, enum dtype type, const int64_t *dim, int32_t n_dim) {
    const char *tn = type_name(type);
    int64_t bytes = tn ? tensor_bytes_wanted(type, dim, n_dim) : -1;
    if (bytes < 0) {
        return err_set(ERR_UNSUPPORTED, "%s: tensor \"%s\" of type %s cannot be written",
                       w->file.path, name, dtype_info(type)->name);
    }
    if (json_object_get(w->head, name)) {
        return err_set(ERR_INTERNAL, "%s: tensor \"%s\" is declared twice", w->file.path, name);
    }
    json_t *shape = json_array();
    for (int32_t i = 0; i < n_dim; i++) {
        json_array_append_new(shape, json_integer(dim[i]));
    }
    json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", tn, "shape", shape, "data_offsets",
                              (json_int_t)w->n_data, (json_int_t)(w->n_data + bytes));
    if (!entry || json_object_set_new(w->head, name, entry) != 0) {
        return err_set(ERR_NOMEM, "%s: tensor \"%s\" cannot be declared", w->file.path, name);
    }
    w->n_data += bytes;
    return 0;
}

int stwrite_begin(struct stwrite *w) {
    static const char blanks[] = "        ";
    char *text = json_dumps(w->head, JSON_COMPACT);
    if (!text) {
        return err_set(ERR_NOMEM, "%s: cannot format the header", w->file.path);
    }
    uint64_t n = strlen(text);
    uint64_t padded = (n + 7) / 8 * 8;
    int rc = filew_write(&w->file, &padded, 8);
    rc = rc ? rc : filew_write(&w->file, text, (int64_t)n);
    rc = rc ? rc : filew_write(&w->file, blanks, (int64_t)(padded - n));
    free(text); /* why: memory of jansson, not of mem_* */
    return rc;
}

int stwrite_data(struct stwrite *w, const void *data, int64_t n) {
    if (n > w->n_data - w->n_given) {
        return err_set(ERR_INTERNAL, "%s: %lld bytes more than declared", w->file.path,
                       (long long)(n - (w->n_data - w->n_given)));
    }
    int rc = filew_write(&w->file, data, n);
    if (!rc) {
        w->n_given += n;
    }
    return rc;
}

int stwrite_commit(struct stwrite *w) {
    if (w->n_given != w->n_data) {
        int rc = err_set(ERR_INTERNAL, "%s: %lld of %lld bytes given", w->file.path,
                         (long long)w->n_given, (long long)w->n_data);
        stwrite_abort(w);
        return rc;
    }
    int rc = filew_commit(&w->file);
    json_decref(w->head);
    mem_free(w);
    return rc;
}

void stwrite_abort(struct stwrite *w) {
    if (w) {
        filew_abort(&w->file);
        json_decref(w->head);
        mem_free(w);
    }
}
