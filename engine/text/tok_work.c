/* Scratches of encode calls, kept in a pool.
 *
 * A call takes one under the lock, works without it, and gives it back. Thus threads share the
 * tokenizer but no mutable byte, and the memory of piece cache, symbols and heap is reused. A pool
 * keeps at most TOK_POOL_MAX; what is given back beyond that is freed. A scratch that has grown
 * past TOK_KEEP_BYTES lets its buffers go. */
#include "engine/base/err.h"
#include "engine/text/tok_int.h"

enum { MATCH_STEPS_MAX = 100000000, HEAP_KIB_MAX = 256 << 10 };
enum { JIT_STACK_MIN = 32 << 10, JIT_STACK_MAX = 8 << 20 };

static void drop(struct tok_work *w) {
    buf_fini(&w->clean);
    buf_fini(&w->norm);
    buf_fini(&w->between);
    buf_fini(&w->tmp[0]);
    buf_fini(&w->tmp[1]);
    buf_fini(&w->key);
    for (int32_t i = 0; i < TOK_STEPS_MAX; i++) {
        buf_fini(&w->seg[i]);
    }
    mem_free(w->sym);
    mem_free(w->init);
    tok_ids_fini(&w->lens);
    w->init = NULL;
    w->n_init = 0;
    mem_free(w->best);
    w->sym = NULL;
    w->best = NULL;
    w->n_sym = 0;
    w->n_best = 0;
    tok_queue_fini(&w->queue);
}

void tok_work_destroy(struct tok_work *w) {
    if (!w) {
        return;
    }
    drop(w);
    pcre2_match_data_free(w->match);
    pcre2_match_context_free(w->mctx);
    if (w->stack) {
        pcre2_jit_stack_free(w->stack);
    }
    mem_free(w->cache);
    mem_free(w);
}

static int create(const struct tok *tok, struct tok_work **out) {
    struct tok_work *w = mem_calloc(MEM_TEXT, sizeof *w);
    if (!w) {
        return ERR_NOMEM;
    }
    w->tok = tok;
    w->queue.free = -1;
    buf_init(&w->clean, MEM_TEXT, (int64_t)TOK_TEXT_MAX * 3);
    buf_init(&w->norm, MEM_TEXT, (int64_t)TOK_TEXT_MAX * 3);
    buf_init(&w->between, MEM_TEXT, (int64_t)TOK_TEXT_MAX * 3);
    buf_init(&w->tmp[0], MEM_TEXT, (int64_t)TOK_TEXT_MAX * 3);
    buf_init(&w->tmp[1], MEM_TEXT, (int64_t)TOK_TEXT_MAX * 3);
    buf_init(&w->key, MEM_TEXT, 4 * TOK_TOKEN_MAX);
    for (int32_t i = 0; i < TOK_STEPS_MAX; i++) {
        buf_init(&w->seg[i], MEM_TEXT, (int64_t)TOK_TEXT_MAX * 3);
    }
    w->cache = mem_array(MEM_TEXT, TOK_CACHE_SLOTS, sizeof *w->cache);
    w->match = pcre2_match_data_create(1, tok->gctx);
    w->mctx = pcre2_match_context_create(tok->gctx);
    if (!w->cache || !w->match || !w->mctx) {
        tok_work_destroy(w);
        return err_set(ERR_NOMEM, "cannot allocate the scratch of a tokenizer");
    }
    /* why: without a JIT in this build of PCRE2 there is no stack either, and none is needed */
    w->stack = pcre2_jit_stack_create(JIT_STACK_MIN, JIT_STACK_MAX, tok->gctx);
    if (w->stack) {
        pcre2_jit_stack_assign(w->mctx, NULL, w->stack);
    }
    pcre2_set_match_limit(w->mctx, MATCH_STEPS_MAX);
    pcre2_set_heap_limit(w->mctx, HEAP_KIB_MAX);
    *out = w;
    return 0;
}

int tok_work_take(const struct tok *tok, struct tok_work **out) {
    /* why: the pool is the one mutable part of a tokenizer, guarded by its lock */
    struct tok *t = (struct tok *)(uintptr_t)tok;
    pthread_mutex_lock(&t->lock);
    struct tok_work *w = t->pool;
    if (w) {
        t->pool = w->next;
        t->n_pool--;
    }
    pthread_mutex_unlock(&t->lock);
    if (!w) {
        return create(tok, out);
    }
    *out = w;
    return 0;
}

static bool grown(const struct tok_work *w) {
    int64_t most = i64_max(w->clean.cap, i64_max(w->norm.cap, w->between.cap));
    for (int32_t i = 0; i < TOK_STEPS_MAX; i++) {
        most = i64_max(most, w->seg[i].cap);
    }
    return most > TOK_KEEP_BYTES || w->n_sym * (int64_t)sizeof *w->sym > TOK_KEEP_BYTES ||
           w->n_init * (int64_t)sizeof *w->init > TOK_KEEP_BYTES ||
           w->n_best * (int64_t)sizeof *w->best > TOK_KEEP_BYTES ||
           (int64_t)w->queue.cap * 64 > TOK_KEEP_BYTES;
}

void tok_work_give(const struct tok *tok, struct tok_work *w) {
    struct tok *t = (struct tok *)(uintptr_t)tok;
    w->out = NULL;
    if (grown(w)) {
        drop(w);
    }
    pthread_mutex_lock(&t->lock);
    t->n_ops += w->n_ops;
    w->n_ops = 0;
    bool keep = t->n_pool < TOK_POOL_MAX;
    if (keep) {
        w->next = t->pool;
        t->pool = w;
        t->n_pool++;
    }
    pthread_mutex_unlock(&t->lock);
    if (!keep) {
        tok_work_destroy(w);
    }
}
