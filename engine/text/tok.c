/* What is asked of a tokenizer, and its end. */
#include "engine/text/tok.h"

#include <string.h>

#include "engine/base/err.h"
#include "engine/text/tok_int.h"

void tok_destroy(struct tok *t) {
    if (!t) {
        return;
    }
    while (t->pool) {
        struct tok_work *w = t->pool;
        t->pool = w->next;
        tok_work_destroy(w);
    }
    for (int32_t i = 0; i < TOK_STEPS_MAX; i++) {
        pcre2_code_free(t->regex[i]);
    }
    for (int32_t i = 0; i < TOK_NORM_MAX; i++) {
        pcre2_code_free(t->norm_regex[i]);
    }
    for (int32_t i = 0; i < TOK_DEC_MAX; i++) {
        pcre2_code_free(t->dec_regex[i]);
    }
    pcre2_general_context_free(t->gctx);
    tok_trie_fini(&t->raw);
    tok_trie_fini(&t->normal);
    tok_vocab_fini(&t->vocab);
    tok_merges_fini(&t->merges);
    tok_trie_fini(&t->pieces);
    tok_trie_fini(&t->user);
    mem_free(t->rank_id);
    mem_free(t->pair_rank);
    mem_free(t->score);
    mem_free(t->first);
    mem_free(t->class);
    mem_free(t->piece);
    buf_fini(&t->piece_bytes);
    mem_free(t->flags);
    mem_free(t->added);
    buf_fini(&t->strings);
    mem_free(t->chat_template);
    pthread_mutex_destroy(&t->lock);
    mem_free(t);
}

void tok_close(struct tok *t) {
    tok_destroy(t);
}

const uint8_t *tok_piece(const struct tok *t, int32_t id, int32_t *n) {
    if (id < 0 || id >= t->vocab.n || !(t->flags[id] & TOK_F_HAVE)) {
        *n = 0;
        return NULL;
    }
    *n = t->piece[id].n;
    return (const uint8_t *)buf_cstr(&t->piece_bytes) + t->piece[id].at;
}

const char *tok_written(const struct tok *t, int32_t id, int32_t *n) {
    for (int32_t i = 0; i < t->n_added; i++) {
        if (t->added[i].id == id) {
            *n = t->added[i].text.n;
            return t->added[i].text.p;
        }
    }
    return (const char *)tok_piece(t, id, n);
}

int64_t tok_ops(const struct tok *tok) {
    /* why: the lock is the one mutable part that a reader touches */
    struct tok *t = (struct tok *)(uintptr_t)tok;
    pthread_mutex_lock(&t->lock);
    int64_t n = t->n_ops;
    pthread_mutex_unlock(&t->lock);
    return n;
}

int32_t tok_n_vocab(const struct tok *t) {
    return t->vocab.n;
}

bool tok_is_byte_level(const struct tok *tok) {
    return tok->byte_level;
}

int32_t tok_bos(const struct tok *t) {
    return t->cfg.bos;
}

const int32_t *tok_eos(const struct tok *t, int32_t *n) {
    *n = t->cfg.n_eos;
    return t->cfg.eos;
}

bool tok_is_eos(const struct tok *t, int32_t id) {
    for (int32_t i = 0; i < t->cfg.n_eos; i++) {
        if (t->cfg.eos[i] == id) {
            return true;
        }
    }
    return false;
}

bool tok_is_special(const struct tok *t, int32_t id) {
    return id >= 0 && id < t->vocab.n && (t->flags[id] & TOK_F_SPECIAL);
}

int32_t tok_find(const struct tok *t, const char *text) {
    int64_t n = (int64_t)strlen(text);
    for (int32_t i = 0; i < t->n_added; i++) {
        if (t->added[i].text.n == n && memcmp(t->added[i].text.p, text, (size_t)n) == 0) {
            return t->added[i].id;
        }
    }
    return tok_vocab_find(&t->vocab, (const uint8_t *)text, n);
}

const char *tok_chat_template(const struct tok *t) {
    return t->chat_template;
}
