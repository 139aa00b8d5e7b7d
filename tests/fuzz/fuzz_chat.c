/* Any bytes as a chat template: refused with a sentence, or rendered within the limits. */
#include <assert.h>

#include "engine/base/err.h"
#include "engine/text/chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const char text[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"h\xc3\xa9 <b>\"},"
                               "{\"role\":\"assistant\",\"content\":\"x\"}],\"tools\":[{\"name\":"
                               "\"f\",\"n\":1.5,\"z\":null}],\"add_generation_prompt\":true}";
    struct chat *c = NULL;
    json_t *vars = NULL;
    struct buf b;
    if (chat_compile("fuzz", (const char *)data, (int64_t)n, &c)) {
        assert(err_msg()[0]);
        return 0;
    }
    buf_init(&b, MEM_TEST, 1 << 22);
    if (json_parse("vars", text, (int64_t)sizeof text - 1, &vars) == 0) {
        (void)chat_render(c, vars, 0, &b);
    }
    json_decref(vars);
    buf_fini(&b);
    chat_free(c);
    return 0;
}
