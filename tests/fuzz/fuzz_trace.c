/* Any bytes as a request trace: parsed with ascending times, or refused. */
#include <stdlib.h>

#include "scenarios/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct trace t;
    if (trace_parse("fuzz", (const char *)data, (int64_t)n, &t)) {
        return 0;
    }
    for (int64_t i = 1; i < t.n; i++) {
        if (t.start_ns[i] < t.start_ns[i - 1] || t.block_at[i] > t.block_at[i + 1]) {
            abort();
        }
    }
    trace_fini(&t);
    return 0;
}
