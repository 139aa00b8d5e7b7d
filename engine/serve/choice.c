/* Laws:
 *  1. The text is cut where the first stop string begins, whichever tokens it lies in; what may
 *     still become one is held back. Before min_tokens nothing is looked for.
 *  2. A stop token ends the answer and has no text. It is counted, as in vLLM.
 *  3. The text is a function of the tokens alone: a stream and a whole answer are equal.
 *  4. Alternatives are taken in the engine's thread into slots made beforehand; the event that
 *     follows through the ring makes them visible. A slot is used again n_slot tokens later, more
 *     than can be under way. */
#include "engine/serve/choice.h"

#include <math.h>

#include "engine/base/err.h"
#include "engine/text/utf8.h"

int choice_init(struct choice *c,
                const struct apireq *r,
                const struct tok *tok,
                int32_t index,
                int32_t n_ahead) {
    *c = (struct choice){.r = r, .index = index, .n_slot = i32_min(r->max_new, n_ahead)};
    detok_init(&c->detok, tok, true);
    buf_init(&c->text, MEM_SERVE, CHOICE_TEXT_MAX);
    lpout_init(&c->lp, r->logprobs ? tok : NULL, r->kind == APIREQ_CHAT, r->n_top);
    if (r->n_top > 0) {
        c->top = mem_array(MEM_SERVE, (int64_t)c->n_slot * r->n_top, (int64_t)sizeof *c->top);
        if (!c->top) {
            choice_fini(c);
            return ERR_NOMEM;
        }
    }
    return 0;
}

void choice_fini(struct choice *c) {
    detok_fini(&c->detok);
    buf_fini(&c->text);
    lpout_fini(&c->lp);
    mem_free(c->top);
    *c = (struct choice){0};
}

/* Keeps the n_top largest logits of a row, best first, ties by id. */
static int take_row(void *ctx, int32_t position, const float *logits, int32_t vocab) {
    struct choice *c = ctx;
    int32_t n_top = c->r->n_top;
    struct lpout_top *top = c->top + (int64_t)(c->n_row++ % c->n_slot) * n_top;
    int32_t n = 0;
    (void)position;
    for (int32_t id = 0; id < vocab; id++) {
        float x = logits[id];
        if (isnan(x) || (n == n_top && x <= top[n - 1].logprob)) {
            continue;
        }
        int32_t i = n < n_top ? n++ : n - 1;
        for (; i > 0 && top[i - 1].logprob < x; i--) {
            top[i] = top[i - 1];
        }
        top[i] = (struct lpout_top){.id = id, .logprob = x};
    }
    double sum = sampler_logsumexp(logits, vocab);
    for (int32_t i = 0; i < n_top; i++) {
        top[i] = i < n ? (struct lpout_top){top[i].id, (float)((double)top[i].logprob - sum)}
                       : (struct lpout_top){.id = -1};
    }
    return 0;
}

struct engine_request choice_request(struct choice *c) {
    const struct apireq *r = c->r;
    const struct tok_ids *ids = &r->prompt[c->index / r->n];
    struct engine_request q = {.ids = ids->v,
                               .n_ids = ids->n,
                               .max_new = r->max_new,
                               .min_new = r->min_new,
                               .sampling = r->sampling,
                               .stop = r->stop_id,
                               .n_stop = r->n_stop_id,
                               .ignore_stop = r->ignore_eos,
                               .logprob = r->logprobs,
                               .row = r->n_top > 0 ? take_row : NULL,
                               .row_ctx = c};
    q.sampling.seed += (uint64_t)(c->index % r->n);
    return q;
}

static bool is_stop_id(const struct apireq *r, int32_t id) {
    for (int32_t i = 0; i < r->n_stop_id && !r->ignore_eos; i++) {
        if (r->stop_id[i] == id) {
            return true;
        }
    }
    return false;
}

/* Looks for stop strings in what is not ready yet. last: nothing will follow */
static void scan(struct choice *c, bool last) {
    const struct stopwords *s = &c->r->stop;
    if (c->n_tok < c->r->min_new) {
        c->n_ready = c->text.len;
        return;
    }
    int64_t at = stopwords_find(s, buf_cstr(&c->text), c->n_ready, c->text.len);
    if (at >= 0) {
        c->text.len = at;
        c->text.data[at] = '\0';
        c->reason = "stop";
    }
    bool over = last || at >= 0;
    c->n_ready =
        c->text.len - (over ? 0 : stopwords_held(s, buf_cstr(&c->text), c->n_ready, c->text.len));
}

int choice_token(struct choice *c, const struct event *ev) {
    if (c->reason) {
        return 0;
    }
    c->first_ns = c->first_ns ? c->first_ns : ev->t_ns;
    c->last_ns = ev->t_ns;
    c->n_tok++;
    if (is_stop_id(c->r, ev->token)) {
        return 0;
    }
    int64_t before = c->text.len;
    int64_t offset = c->n_char;
    int rc = detok_push(&c->detok, ev->token, &c->text);
    c->n_char += utf8_count((const uint8_t *)buf_cstr(&c->text) + before, c->text.len - before);
    const struct lpout_top *top =
        c->top ? c->top + (int64_t)(ev->index % c->n_slot) * c->r->n_top : NULL;
    rc = rc ? rc : lpout_add(&c->lp, ev->token, ev->logprob, top, offset);
    scan(c, false);
    return rc;
}

int choice_end(struct choice *c, const struct event *ev) {
    int rc = 0;
    c->ended = true;
    c->finish = ev->finish;
    c->n_cached = ev->n_cached;
    c->first_run_ns = ev->first_run_ns;
    if (!c->reason) {
        rc = detok_flush(&c->detok, &c->text);
        scan(c, true);
    }
    if (!c->reason && (ev->finish == FINISH_STOP || ev->finish == FINISH_LENGTH)) {
        c->reason = ev->finish == FINISH_STOP ? "stop" : "length";
    }
    return rc;
}
