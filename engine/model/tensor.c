#include "engine/model/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"

int tensor_dir_add(struct tensor_dir *d, const struct tensor *t, const char *name, int64_t n_name) {
    if (d->n == TENSORS_MAX || n_name > TENSOR_NAME_MAX) {
        return err_set(ERR_LIMIT, "tensor %d has a name of %lld bytes, at most %d tensors of %d",
                       d->n, (long long)n_name, TENSORS_MAX, TENSOR_NAME_MAX);
    }
    if (d->n == d->cap) {
        int32_t cap = d->cap ? d->cap * 2 : 64;
        struct tensor *p = mem_realloc(MEM_MODEL, d->items, cap * (int64_t)sizeof *p);
        if (!p) {
            return ERR_NOMEM;
        }
        d->items = p;
        d->cap = cap;
    }
    char *copy = mem_strdup(MEM_MODEL, name, n_name);
    if (!copy) {
        return ERR_NOMEM;
    }
    d->items[d->n] = *t;
    d->items[d->n].name = copy;
    d->n++;
    return 0;
}

static int by_name(const void *a, const void *b) {
    const struct tensor *x = a;
    const struct tensor *y = b;
    return strcmp(x->name, y->name);
}

int tensor_dir_sort(struct tensor_dir *d, const char *where) {
    if (d->n == 0) {
        return 0;
    }
    qsort(d->items, (size_t)d->n, sizeof *d->items, by_name);
    for (int32_t i = 1; i < d->n; i++) {
        if (strcmp(d->items[i - 1].name, d->items[i].name) == 0) {
            return err_set(ERR_FORMAT, "%s: two tensors are named \"%s\"", where, d->items[i].name);
        }
    }
    return 0;
}

const struct tensor *tensor_dir_find(const struct tensor_dir *d, const char *name) {
    int32_t lo = 0;
    int32_t hi = d->n - 1;
    while (lo <= hi) {
        int32_t mid = lo + (hi - lo) / 2;
        int c = strcmp(name, d->items[mid].name);
        if (c == 0) {
            return &d->items[mid];
        }
        if (c < 0) {
            hi = mid - 1;
        } else {
            lo = mid + 1;
        }
    }
    return NULL;
}

int tensor_dir_join(struct tensor_dir *d, const struct tensor_dir *src) {
    for (int32_t i = 0; i < src->n; i++) {
        const struct tensor *t = &src->items[i];
        int rc = tensor_dir_add(d, t, t->name, (int64_t)strlen(t->name));
        if (rc) {
            return rc;
        }
    }
    return 0;
}

void tensor_dir_fini(struct tensor_dir *d) {
    for (int32_t i = 0; i < d->n; i++) {
        mem_free(d->items[i].name);
    }
    mem_free(d->items);
    *d = (struct tensor_dir){0};
}

int64_t tensor_bytes_wanted(enum dtype type, const int64_t *dim, int32_t n_dim) {
    int64_t rows = 1;
    int64_t last = n_dim > 0 ? dim[n_dim - 1] : 1;
    int64_t total = 0;
    for (int32_t i = 0; i + 1 < n_dim; i++) {
        if (dim[i] < 0 || !i64_mul(rows, dim[i], &rows)) {
            return -1;
        }
    }
    int64_t row = last < 0 ? -1 : dtype_row_bytes(type, last);
    return row < 0 || !i64_mul(rows, row, &total) ? -1 : total;
}

char *tensor_shape_text(char *dst, const int64_t *dim, int32_t n_dim) {
    int n = snprintf(dst, TENSOR_SHAPE_TEXT, "[");
    for (int32_t i = 0; i < n_dim && n < TENSOR_SHAPE_TEXT - 24; i++) {
        n += snprintf(dst + n, (size_t)(TENSOR_SHAPE_TEXT - n), "%s%lld", i ? ", " : "",
                      (long long)dim[i]);
    }
    snprintf(dst + n, (size_t)(TENSOR_SHAPE_TEXT - n), "]");
    return dst;
}
