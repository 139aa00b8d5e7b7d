/* Any bytes as the body of any request: read within the limits, or refused with a status and a
 * sentence. The first byte chooses the kind. */
#include <assert.h>

#include "tests/support/api_fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const enum apireq_kind kinds[] = {APIREQ_CHAT, APIREQ_COMPLETION, APIREQ_TOKENIZE,
                                             APIREQ_DETOKENIZE};
    static struct api_fixture f;
    static bool made;
    struct apireq r;
    struct apierr e;
    struct buf b;
    if (!made) { /* lives as long as the process */
        made = api_fixture_init(&f) == 0;
        assert(made);
    }
    if (n < 1) {
        return 0;
    }
    buf_init(&b, MEM_TEST, 1 << 20);
    if (apireq_parse(kinds[data[0] % 4], &f.env, (const char *)data + 1, (int64_t)n - 1, &r, &e)) {
        assert(e.status >= 400 && e.text[0] && r.n_prompt == 0);
        assert(apierr_format(&e, &b) == 0);
    } else {
        assert(r.kind > APIREQ_COMPLETION || (r.n_prompt >= 1 && r.max_new >= 1));
        for (int32_t i = 0; i < r.n_prompt; i++) {
            for (int32_t k = 0; k < r.prompt[i].n; k++) {
                assert(r.prompt[i].v[k] >= 0 && r.prompt[i].v[k] < API_VOCAB);
            }
        }
        apireq_fini(&r);
    }
    buf_fini(&b);
    return 0;
}
