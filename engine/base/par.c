#include "engine/base/par.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { THREADS_MAX = 256 };

struct share {
    void (*fn)(void *ctx, int64_t i);
    void *ctx;
    int64_t n;
    _Atomic int64_t next;
};

int32_t par_n_cpu(void) {
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (int32_t)n;
}

static void *work(void *arg) {
    struct share *s = arg;
    for (int64_t i = atomic_fetch_add(&s->next, 1); i < s->n; i = atomic_fetch_add(&s->next, 1)) {
        s->fn(s->ctx, i);
    }
    return NULL;
}

void par_for(int32_t n_threads, int64_t n, void (*fn)(void *ctx, int64_t i), void *ctx) {
    pthread_t id[THREADS_MAX];
    int32_t n_started = 0;
    struct share s = {.fn = fn, .ctx = ctx, .n = n};
    atomic_init(&s.next, 0);
    if (n_threads <= 0) {
        n_threads = par_n_cpu();
    }
    n_threads = (int32_t)i64_min(i32_min(n_threads, THREADS_MAX), n);
    for (int32_t t = 1; t < n_threads; t++) {
        if (pthread_create(&id[n_started], NULL, work, &s) == 0) {
            n_started++;
        }
    }
    work(&s);
    for (int32_t t = 0; t < n_started; t++) {
        pthread_join(id[t], NULL);
    }
}
