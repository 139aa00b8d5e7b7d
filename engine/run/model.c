#include "engine/run/model.h"

#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "engine/model/random.h"
#include "engine/run/toksource.h"

enum { CHAT_TEXT_MAX = 64 << 20 };

/* A token without a row could not be computed; rows without a token are padding. */
static int check_vocab(const struct model *m, const char *path) {
    int32_t n = tok_n_vocab(m->tok);
    int32_t rows = m->weights ? m->weights->cfg.vocab : n; /* inspect lists models without */
    return n <= rows
               ? 0
               : err_set(ERR_FORMAT, "%s: the tokenizer has %d tokens, the model's table has %d",
                         path, n, rows);
}

int model_open_text(struct model *m, const char *path) {
    int rc = m->ckpt->gguf ? toksource_gguf(m->ckpt->gguf, &m->tok) : tok_open(path, &m->tok);
    rc = rc ? rc : check_vocab(m, path);
    if (rc) {
        tok_destroy(m->tok);
        m->tok = NULL;
        str_copy(m->tok_error, (int64_t)sizeof m->tok_error, err_msg());
        str_copy(m->chat_error, (int64_t)sizeof m->chat_error, err_msg());
        return rc == ERR_NOMEM ? rc : 0;
    }
    const char *src = tok_chat_template(m->tok);
    if (!src) {
        str_copy(m->chat_error, (int64_t)sizeof m->chat_error,
                 "the checkpoint has no chat template");
        return 0;
    }
    rc = chat_compile("chat template", src, (int64_t)strlen(src), &m->chat);
    if (rc) {
        str_copy(m->chat_error, (int64_t)sizeof m->chat_error, err_msg());
    }
    return rc == ERR_NOMEM ? rc : 0;
}

int model_open(const char *path, const struct weights_opts *opts, struct model **out) {
    struct model *m = mem_calloc(MEM_RUN, (int64_t)sizeof *m);
    if (!m) {
        return ERR_NOMEM;
    }
    int rc = ckpt_open(path, &m->ckpt);
    rc = rc ? rc : weights_load(m->ckpt, opts, &m->weights);
    rc = rc ? rc : model_open_text(m, path);
    if (rc) {
        model_close(m);
        return rc;
    }
    *out = m;
    return 0;
}

int model_random(const struct model_cfg *c, struct model **out) {
    struct model *m = mem_calloc(MEM_RUN, (int64_t)sizeof *m);
    int rc = m ? weights_random(c, 1, &m->weights) : ERR_NOMEM;
    if (rc) {
        model_close(m);
        return rc;
    }
    str_copy(m->tok_error, (int64_t)sizeof m->tok_error, "random weights have none");
    str_copy(m->chat_error, (int64_t)sizeof m->chat_error, "random weights have none");
    *out = m;
    return 0;
}

void model_close(struct model *m) {
    if (m) {
        chat_free(m->chat);
        tok_destroy(m->tok);
        weights_free(m->weights);
        ckpt_close(m->ckpt);
        mem_free(m);
    }
}

int model_need_tok(const struct model *m) {
    return m->tok ? 0 : err_set(ERR_NOTFOUND, "no tokenizer: %s", m->tok_error);
}

static void set_token(json_t *vars, const char *name, const struct tok *tok, int32_t id) {
    int32_t n = 0;
    const char *p = id >= 0 ? tok_written(tok, id, &n) : NULL;
    if (p) {
        json_object_set_new(vars, name, json_stringn(p, (size_t)n));
    }
}

json_t *model_chat_vars(const struct tok *tok, json_t *messages, bool add_generation_prompt) {
    json_t *vars = json_object();
    int32_t n_eos = 0;
    const int32_t *eos = tok_eos(tok, &n_eos);
    if (vars) {
        json_object_set(vars, "messages", messages);
        json_object_set_new(vars, "add_generation_prompt", json_boolean(add_generation_prompt));
        set_token(vars, "bos_token", tok, tok_bos(tok));
        set_token(vars, "eos_token", tok, n_eos > 0 ? eos[0] : -1);
    }
    return vars;
}

int model_chat_ids(const struct model *m, json_t *messages, int64_t now_s, struct tok_ids *ids) {
    struct buf text;
    int rc = model_need_tok(m);
    if (rc) {
        return rc;
    }
    if (!m->chat) {
        return err_set(ERR_NOTFOUND, "no chat template: %s", m->chat_error);
    }
    json_t *vars = model_chat_vars(m->tok, messages, true);
    if (!vars) {
        return err_set(ERR_NOMEM, "cannot make the template's variables");
    }
    buf_init(&text, MEM_RUN, CHAT_TEXT_MAX);
    rc = chat_render(m->chat, vars, now_s, &text);
    if (!rc) {
        int32_t n_before = ids->n;
        rc =
            tok_encode(m->tok, buf_cstr(&text), text.len, TOK_PARSE_SPECIAL | TOK_ADD_SPECIAL, ids);
        int32_t bos = tok_bos(m->tok);
        if (!rc && bos >= 0 && ids->n - n_before > 1 && ids->v[n_before] == bos &&
            ids->v[n_before + 1] == bos) {
            memmove(ids->v + n_before, ids->v + n_before + 1,
                    (size_t)(ids->n - n_before - 1) * sizeof *ids->v);
            ids->n--;
        }
    }
    buf_fini(&text);
    json_decref(vars);
    return rc;
}
