/* The registry: which backends this build has, by name. The order is the order of preference. */
#include "kernels/backend.h"

#include <string.h>

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "kernels/cpu/backend_cpu.h"
#include "kernels/null/backend_null.h"
#include "kernels/ref/backend_ref.h"
#ifdef TRILEMMA_CUDA
#include "kernels/cuda/backend_cuda.h"
#endif

enum { NAMES_MAX = 128 };

static const struct backend_ops *const backends[] = {&backend_cpu, &backend_ref, &backend_null,
#ifdef TRILEMMA_CUDA
                                                     &backend_cuda
#endif
};

int backend_find(const char *name, const struct backend_ops **out) {
    char names[NAMES_MAX] = "";
    for (int32_t i = 0; i < ARRAY_LEN(backends); i++) {
        if (str_eq(name, backends[i]->name)) {
            *out = backends[i];
            return 0;
        }
        size_t len = strlen(names);
        str_copy(names + len, (int64_t)(sizeof(names) - len), i ? ", " : "");
        len = strlen(names);
        str_copy(names + len, (int64_t)(sizeof(names) - len), backends[i]->name);
    }
    return err_set(ERR_UNSUPPORTED, "backend \"%s\", this build has %s", name, names);
}

const struct backend_ops *backend_at(int32_t i) {
    return i >= 0 && i < ARRAY_LEN(backends) ? backends[i] : NULL;
}
