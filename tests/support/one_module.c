#include "tests/support/one_module.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "tests/support/support.h"

static void *give(void *ctx, int64_t bytes) {
    struct one *o = ctx;
    if (o->n_left-- == 0) {
        err_set(ERR_NOMEM, "none left");
        return NULL;
    }
    assert_true(o->n_owned < ONE_OWNED_MAX);
    return o->owned[o->n_owned++] = mem_calloc(MEM_TEST, bytes);
}

void one_init(struct one *o, const char *config, int32_t n, int32_t k) {
    json_t *j = NULL;
    struct buf text;
    memset(o, 0, sizeof *o);
    o->n = n;
    o->k = k;
    o->n_left = -1;
    test_tmpdir(o->dir);
    buf_init(&text, MEM_TEST, 10000);
    assert_ok(buf_fmt(&text, "{\"quantization_config\":%s}", config));
    assert_ok(json_parse("t", buf_cstr(&text), text.len, &j));
    assert_ok(qformat_read(j, "t", &o->q));
    json_decref(j);
    buf_fini(&text);
}

void one_fini(struct one *o) {
    for (int32_t i = 0; i < o->n_owned; i++) {
        mem_free(o->owned[i]);
    }
    ckpt_close(o->c);
    qformat_fini(&o->q);
    toy_model_fini(&o->toy);
    test_rmdir(o->dir);
}

struct toy_tensor *
one_put(struct one *o, const char *part, enum dtype type, int64_t rows, int64_t cols) {
    char name[64];
    snprintf(name, sizeof name, "m.%s", part);
    struct toy_tensor *t = toy_model_add(&o->toy, name, type, rows, cols);
    for (int64_t i = 0; i < t->bytes; i++) { /* 1.0 in every float; in integers something */
        static const uint8_t f32[] = {0, 0, 0x80, 0x3f};
        static const uint8_t f16[] = {0, 0x3c};
        static const uint8_t bf16[] = {0x80, 0x3f};
        t->data[i] = type == DTYPE_F32       ? f32[i % 4]
                     : type == DTYPE_F16     ? f16[i % 2]
                     : type == DTYPE_BF16    ? bf16[i % 2]
                     : type == DTYPE_F8_E4M3 ? 0x38
                     : type == DTYPE_F8_E8M0 ? 127
                                             : 0;
    }
    return t;
}

void one_put_shape(struct one *o, int64_t n, int64_t k) {
    const int64_t dims[2] = {n, k};
    memcpy(one_put(o, "weight_shape", DTYPE_I64, 2, 0)->data, dims, sizeof dims);
}

void one_open(struct one *o, bool check, int32_t pad) {
    toy_model_write_hf(&o->toy, o->dir, "", pad);
    ckpt_close(o->c);
    o->c = NULL;
    assert_ok(ckpt_open(o->dir, &o->c));
    o->b = (struct qbind){.c = o->c, .q = &o->q, .alloc = give, .ctx = o, .check = check};
}

int one_bind(struct one *o, struct wmat *w, int32_t pad) {
    const struct qscheme *s = NULL;
    one_open(o, true, pad);
    int rc = qbind_module(&o->b, "m", "Linear", false, o->n, o->k, &s, w);
    assert_true(rc || s);
    return rc;
}
