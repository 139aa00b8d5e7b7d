/* The thread pool: one gate word, claimed ranges, a short spin and then sleep.
 *
 * gate = | epoch : 32 | open : 1 | n_active : 31 |
 *
 * 1. The caller writes the job, then opens the gate under a new epoch. A worker joins by raising
 *    n_active with a compare-and-swap on an open gate, at most once an epoch.
 * 2. Ranges are claimed from a counter, so a late worker takes less and nobody waits for a worker
 *    that never joined: a sleeping thread costs the caller nothing but the wake-up call.
 * 3. The caller closes the gate when the counter has run out, then waits until n_active is 0. Only
 *    then may the job be written again.
 * 4. A worker goes to sleep under the lock, after raising n_asleep and seeing the gate shut; the
 *    caller opens the gate and then looks at n_asleep. Both are sequentially consistent, so one of
 *    the two sees the other and no wake-up is lost. */
#include "kernels/cpu/cpu_pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"

enum { CPU_POOL_SPIN_NS = 40000, SPIN_BATCH = 32, SPIN_YIELD = 2000 };

static const uint64_t GATE_OPEN = UINT64_C(1) << 31;
static const uint64_t GATE_COUNT = (UINT64_C(1) << 31) - 1;

struct worker {
    struct cpu_pool *pool; /* ref */
    int32_t thread;
    pthread_t id;
};

struct cpu_pool {
    _Atomic uint64_t gate;
    _Atomic int64_t next; /* first item not yet claimed */
    cpu_pool_fn *fn;      /* the job; fixed while the gate is open or n_active > 0 */
    const void *ctx;
    int64_t n_items;
    int64_t chunk;
    _Atomic int32_t n_asleep;
    _Atomic bool quit;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int32_t n_threads;
    int32_t n_started;
    struct worker *workers; /* own, [n_threads - 1] */
};

static void relax(void) {
    __builtin_ia32_pause();
}

static void work(struct cpu_pool *pool, int32_t thread) {
    for (;;) {
        int64_t i0 = atomic_fetch_add_explicit(&pool->next, pool->chunk, memory_order_relaxed);
        if (i0 >= pool->n_items) {
            return;
        }
        pool->fn(pool->ctx, i0, i64_min(i0 + pool->chunk, pool->n_items), thread);
    }
}

/* Is there an open gate of an epoch other than seen? */
static bool gate_calls(uint64_t gate, uint32_t seen) {
    return (gate & GATE_OPEN) != 0 && (uint32_t)(gate >> 32) != seen;
}

/* Joins the open job, works and leaves. out: the epoch served, or seen when the gate had shut */
static uint32_t serve(struct cpu_pool *pool, int32_t thread, uint32_t seen) {
    uint64_t gate = atomic_load(&pool->gate);
    while (gate_calls(gate, seen)) {
        if (atomic_compare_exchange_weak(&pool->gate, &gate, gate + 1)) {
            work(pool, thread);
            atomic_fetch_sub(&pool->gate, 1);
            return (uint32_t)(gate >> 32);
        }
    }
    return seen;
}

static void sleep_until_called(struct cpu_pool *pool, uint32_t seen) {
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->n_asleep, 1);
    while (!atomic_load(&pool->quit) && !gate_calls(atomic_load(&pool->gate), seen)) {
        pthread_cond_wait(&pool->wake, &pool->lock);
    }
    atomic_fetch_sub(&pool->n_asleep, 1);
    pthread_mutex_unlock(&pool->lock);
}

/* Spins for a while. out: false when the time is up without a call */
static bool spin_until_called(struct cpu_pool *pool, uint32_t seen) {
    int64_t end = clock_now_ns() + CPU_POOL_SPIN_NS;
    do {
        for (int32_t i = 0; i < SPIN_BATCH; i++) {
            if (gate_calls(atomic_load_explicit(&pool->gate, memory_order_acquire), seen)) {
                return true;
            }
            relax();
        }
    } while (clock_now_ns() < end && !atomic_load(&pool->quit));
    return false;
}

static void *worker_main(void *arg) {
    struct worker *w = arg;
    uint32_t seen = 0;
    while (!atomic_load(&w->pool->quit)) {
        if (!spin_until_called(w->pool, seen)) {
            sleep_until_called(w->pool, seen);
        }
        seen = serve(w->pool, w->thread, seen);
    }
    return NULL;
}

static void wake_all(struct cpu_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

void cpu_pool_run(
    struct cpu_pool *pool, cpu_pool_fn *fn, const void *ctx, int64_t n_items, int64_t chunk) {
    if (n_items <= chunk || pool->n_threads == 1) {
        if (n_items > 0) {
            fn(ctx, 0, n_items, 0);
        }
        return;
    }
    pool->fn = fn;
    pool->ctx = ctx;
    pool->n_items = n_items;
    pool->chunk = chunk;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    uint64_t epoch = (atomic_load_explicit(&pool->gate, memory_order_relaxed) >> 32) + 1;
    epoch = (epoch & UINT32_MAX) == 0 ? 1 : epoch; /* why: 0 is what a fresh worker has seen */
    atomic_store(&pool->gate, (epoch << 32) | GATE_OPEN);
    if (atomic_load(&pool->n_asleep) > 0) {
        wake_all(pool);
    }
    work(pool, 0);
    atomic_fetch_and(&pool->gate, ~GATE_OPEN);
    for (int32_t spins = 0; (atomic_load(&pool->gate) & GATE_COUNT) != 0; spins++) {
        if (spins < SPIN_YIELD) {
            relax();
        } else {
            sched_yield();
        }
    }
}

static int32_t n_cores(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    return i32_min(i32_max(n, 1), CPU_POOL_THREADS_MAX);
}

static int start_workers(struct cpu_pool *pool) {
    for (int32_t i = 0; i < pool->n_threads - 1; i++) {
        struct worker *w = &pool->workers[i];
        w->pool = pool;
        w->thread = i + 1;
        int e = pthread_create(&w->id, NULL, worker_main, w);
        if (e) {
            return err_set(ERR_DEVICE, "thread %d of %d cannot start: %s", i + 2, pool->n_threads,
                           strerror(e));
        }
        pool->n_started++;
    }
    return 0;
}

int cpu_pool_create(int32_t n_threads, struct cpu_pool **out) {
    if (n_threads < 0 || n_threads > CPU_POOL_THREADS_MAX) {
        return err_set(ERR_RANGE, "%d threads, want 0 to %d", n_threads, (int)CPU_POOL_THREADS_MAX);
    }
    struct cpu_pool *pool = mem_calloc(MEM_KERNEL, (int64_t)sizeof(*pool));
    if (!pool) {
        return ERR_NOMEM;
    }
    pool->n_threads = n_threads ? n_threads : n_cores();
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    int rc = ERR_NOMEM;
    pool->workers = mem_array(MEM_KERNEL, pool->n_threads - 1, (int64_t)sizeof(*pool->workers));
    if (!pool->workers) {
        goto out_pool;
    }
    rc = start_workers(pool);
    if (rc) {
        goto out_pool;
    }
    *out = pool;
    return 0;

out_pool:
    cpu_pool_destroy(pool);
    return rc;
}

void cpu_pool_destroy(struct cpu_pool *pool) {
    if (!pool) {
        return;
    }
    atomic_store(&pool->quit, true);
    wake_all(pool);
    for (int32_t i = 0; i < pool->n_started; i++) {
        pthread_join(pool->workers[i].id, NULL);
    }
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    mem_free(pool->workers);
    mem_free(pool);
}

int32_t cpu_pool_threads(const struct cpu_pool *pool) {
    return pool->n_threads;
}
