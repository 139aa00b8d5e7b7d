/* Any bytes as tokenizer.model: refused with a sentence, or a tokenizer that encodes and decodes.
 */
#include <assert.h>

#include "engine/base/err.h"
#include "engine/text/tok.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const char text[] = "  hello  w\xc3\xb6rld 123\n<s>\xe4\xbd\xa0\xff e\xcc\x81  ";
    struct tok *t = NULL;
    struct tok_ids ids;
    struct buf b;
    if (tok_parse_model("fuzz", data, (int64_t)n, &t)) {
        assert(err_msg()[0]);
        return 0;
    }
    tok_ids_init(&ids);
    buf_init(&b, MEM_TEST, 1 << 24);
    if (tok_encode(t, text, (int64_t)sizeof text - 1, TOK_PARSE_SPECIAL | TOK_ADD_SPECIAL, &ids) ==
        0) {
        (void)tok_decode(t, ids.v, ids.n, true, &b);
    }
    buf_fini(&b);
    tok_ids_fini(&ids);
    tok_destroy(t);
    return 0;
}
