/* Any bytes are a manifest or an error; what is accepted keeps its promises. */
#include <stdlib.h>

#include "datasets/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct manifest *m = NULL;
    if (manifest_parse("fuzz", (const char *)data, (int64_t)n, &m) == 0) {
        bool ok = manifest_name_ok(m->name) && m->n_sources >= 1;
        for (int32_t i = 0; i < m->n_sources; i++) {
            const struct manifest_source *s = &m->sources[i];
            for (int32_t j = 0; j < s->n_files; j++) {
                ok = ok && manifest_path_ok(s->files[j].path);
            }
        }
        manifest_destroy(m);
        if (!ok) {
            abort();
        }
    }
    return 0;
}
