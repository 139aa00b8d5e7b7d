/* Any bytes as a scenario file: parsed or refused; what parses prints, and the print is a fixed
 * point of parse and format. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "scenarios/scenario.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { TEXT_MAX = 1 << 22 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct scenario sc;
    struct scenario again;
    struct buf a;
    struct buf b;
    if (scenario_parse("fuzz", (const char *)data, (int64_t)n, &sc)) {
        return 0;
    }
    buf_init(&a, MEM_TEST, TEXT_MAX);
    buf_init(&b, MEM_TEST, TEXT_MAX);
    if (scenario_format(&sc, &a) || scenario_parse("again", buf_cstr(&a), a.len, &again)) {
        abort();
    }
    if (scenario_format(&again, &b) || a.len != b.len ||
        memcmp(a.data, b.data, (size_t)a.len) != 0) {
        abort();
    }
    scenario_fini(&again);
    scenario_fini(&sc);
    buf_fini(&a);
    buf_fini(&b);
    return 0;
}
