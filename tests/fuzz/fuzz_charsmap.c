/* Any bytes as a precompiled charsmap, once inside of a SentencePiece model and once in base64
 * inside of a tokenizer.json: refused with a sentence, or it rewrites texts. The last bytes of the
 * input are a text of their own. */
#include <assert.h>

#include "engine/base/err.h"
#include "engine/text/tok.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { MAP_MAX = 1 << 20, TEXT_BYTES = 32 };

static void varint(struct buf *b, int64_t v) {
    while (v >= 0x80) {
        uint8_t c = (uint8_t)(v | 0x80);
        (void)buf_add(b, &c, 1);
        v >>= 7;
    }
    uint8_t c = (uint8_t)v;
    (void)buf_add(b, &c, 1);
}

/* Pieces <unk>, U+2581 and "a"; the map. */
static void model(const uint8_t *map, int64_t n, struct buf *b) {
    static const char pieces[] = "\x0a\x09\x0a\x05<unk>\x18\x02\x0a\x05\x0a\x03\xe2\x96\x81"
                                 "\x0a\x03\x0a\x01"
                                 "a\x12\x02\x18\x01";
    struct buf spec;
    buf_init(&spec, MEM_TEST, 2 * MAP_MAX);
    (void)buf_str(&spec, "\x12");
    varint(&spec, n);
    (void)buf_add(&spec, map, n);
    (void)buf_add(b, pieces, (int64_t)sizeof pieces - 1);
    (void)buf_str(b, "\x1a");
    varint(b, spec.len);
    (void)buf_add(b, spec.data, spec.len);
    buf_fini(&spec);
}

static void json(const uint8_t *map, int64_t n, struct buf *b) {
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    (void)buf_str(
        b, "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"a\",-1]]},"
           "\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
    for (int64_t i = 0; i < n; i += 3) {
        uint32_t v = (uint32_t)map[i] << 16;
        v |= i + 1 < n ? (uint32_t)map[i + 1] << 8 : 0;
        v |= i + 2 < n ? (uint32_t)map[i + 2] : 0;
        for (int64_t k = 0; k < 4 && i + k <= n; k++) {
            (void)buf_add(b, &digit[v >> (18 - 6 * k) & 63], 1);
        }
    }
    (void)buf_str(b, "\"}}");
}

static void run(struct tok *t, const uint8_t *text, int64_t n) {
    static const char fixed[] =
        "ABC \xef\xac\x81 12 abc e\xcc\x81\xcc\xa7 \xe3\x80\x80\r\n\xf0\x9f\x91\xa9\xe2\x80\x8d";
    struct tok_ids ids;
    struct buf b;
    tok_ids_init(&ids);
    buf_init(&b, MEM_TEST, 1 << 24);
    (void)tok_encode(t, fixed, (int64_t)sizeof fixed - 1, 0, &ids);
    (void)tok_encode(t, (const char *)text, n, 0, &ids);
    (void)tok_decode(t, ids.v, ids.n, false, &b);
    buf_fini(&b);
    tok_ids_fini(&ids);
    tok_destroy(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int64_t n = (int64_t)size;
    const uint8_t *text = data + i64_max(0, n - TEXT_BYTES);
    if (n > MAP_MAX) {
        return 0;
    }
    for (int32_t k = 0; k < 2; k++) {
        struct tok *t = NULL;
        struct buf b;
        buf_init(&b, MEM_TEST, 4 * MAP_MAX);
        (k == 0 ? model : json)(data, n, &b);
        int rc = k == 0 ? tok_parse_model("fuzz", (const uint8_t *)buf_cstr(&b), b.len, &t)
                        : tok_parse("fuzz", buf_cstr(&b), b.len, &t);
        assert(rc == 0 || err_msg()[0]);
        if (rc == 0) {
            run(t, text, i64_min(n, TEXT_BYTES));
        }
        buf_fini(&b);
    }
    return 0;
}
