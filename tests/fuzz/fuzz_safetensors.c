/* Any bytes as a safetensors container: a directory whose tensors tile the data, or an error. */
#include <stdlib.h>
#include <string.h>

#include "engine/model/finite.h"
#include "engine/model/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct tensor_dir dir = {0};
    if (safetensors_parse("fuzz", data, (int64_t)n, &dir) || tensor_dir_sort(&dir, "fuzz")) {
        tensor_dir_fini(&dir);
        return 0;
    }
    int64_t sum = 0;
    for (int32_t i = 0; i < dir.n; i++) {
        const struct tensor *t = &dir.items[i];
        if (t->data < data || t->data + t->bytes > data + n ||
            tensor_dir_find(&dir, t->name) != t ||
            t->bytes != tensor_bytes_wanted(t->type, t->dim, t->n_dim)) {
            abort();
        }
        finite_check(t, "fuzz"); /* reads every byte */
        sum += t->bytes;
    }
    uint64_t head = 0;
    memcpy(&head, data, 8);
    if (sum + 8 + (int64_t)head != (int64_t)n) {
        abort();
    }
    tensor_dir_fini(&dir);
    return 0;
}
