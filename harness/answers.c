#include "harness/answers.h"

#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/sched/seq.h"
#include "harness/interrupt.h"

enum { PROMPTS_BYTES_MAX = 1 << 24 };

static int cut_lines(struct answers_prompts *p, const char *file) {
    char *next = p->text.data;
    while (next && *next) {
        char *line = next;
        char *nl = strchr(line, '\n');
        next = nl ? nl + 1 : NULL;
        line[strcspn(line, "\r\n")] = '\0';
        if (line[strspn(line, " \t")] == '\0') {
            continue;
        }
        if (p->n == ANSWERS_MAX) {
            return err_set(ERR_LIMIT, "%s: more than %d prompts", file, (int)ANSWERS_MAX);
        }
        p->prompts[p->n++] = line;
    }
    return 0;
}

int answers_prompts_init(struct answers_prompts *p,
                         const char *file,
                         const char *const *prompts,
                         int32_t n) {
    *p = (struct answers_prompts){0};
    buf_init(&p->text, MEM_HARNESS, PROMPTS_BYTES_MAX);
    p->prompts = mem_array(MEM_HARNESS, ANSWERS_MAX, (int64_t)sizeof *p->prompts);
    if (!p->prompts) {
        return ERR_NOMEM;
    }
    for (int32_t i = 0; i < i32_min(n, ANSWERS_MAX); i++) {
        p->prompts[p->n++] = prompts[i];
    }
    int rc = file ? file_read(file, &p->text) : 0;
    rc = rc || !file ? rc : cut_lines(p, file);
    return rc || p->n > 0 ? rc : err_set(ERR_RANGE, "%s: no prompt", file ? file : "answers");
}

void answers_prompts_fini(struct answers_prompts *p) {
    mem_free(p->prompts);
    buf_fini(&p->text);
}

struct answer {
    uint64_t id;
    struct tok_ids ids; /* own, generated */
    int32_t finish;
    bool over;
};

/* Ids of one prompt: through the chat template when there is one. */
static int prompt_ids(const struct model *m, const char *prompt, struct tok_ids *ids) {
    if (!m->chat) {
        return tok_encode(m->tok, prompt, (int64_t)strlen(prompt),
                          TOK_PARSE_SPECIAL | TOK_ADD_SPECIAL, ids);
    }
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", prompt);
    if (!messages) {
        return err_set(ERR_FORMAT, "a prompt is no valid UTF-8");
    }
    int rc = model_chat_ids(m, messages, clock_wall_ns() / 1000000000, ids);
    json_decref(messages);
    return rc;
}

static int submit_all(const struct answers_job *a, struct answer *list) {
    int rc = model_need_tok(a->model);
    for (int32_t i = 0; i < a->n_prompts && !rc; i++) {
        struct tok_ids ids;
        tok_ids_init(&ids);
        rc = prompt_ids(a->model, a->prompts[i], &ids);
        struct engine_request r = {.ids = ids.v, .n_ids = ids.n, .max_new = a->max_tokens};
        rc = rc ? rc : engine_submit(a->engine, &r, &list[i].id);
        rc = rc ? err_ctx(rc, "prompt %d", i) : 0;
        tok_ids_fini(&ids);
    }
    return rc;
}

static int
take(const struct answers_job *a, struct answer *list, const struct event *ev, int32_t *n_over) {
    for (int32_t i = 0; i < a->n_prompts; i++) {
        if (list[i].id != ev->id) {
            continue;
        }
        if (ev->kind == EVENT_TOKEN) {
            return tok_ids_add(&list[i].ids, ev->token);
        }
        list[i].finish = ev->finish;
        list[i].over = true;
        (*n_over)++;
    }
    return 0;
}

static int pump(const struct answers_job *a, struct answer *list) {
    int32_t n_over = 0;
    while (n_over < a->n_prompts) {
        struct event ev[64];
        bool busy = false;
        int rc = engine_step(a->engine, &busy);
        int32_t n = engine_poll(a->engine, ev, ARRAY_LEN(ev));
        for (int32_t i = 0; i < n && !rc; i++) {
            rc = take(a, list, &ev[i], &n_over);
        }
        rc = rc || !interrupt_seen() ? rc : err_set(ERR_CANCELED, "interrupted");
        if (rc) {
            return rc;
        }
    }
    return 0;
}

static int store_one(const struct answers_job *a, int32_t i, const struct answer *x) {
    struct buf text;
    buf_init(&text, MEM_HARNESS, 1 << 24);
    int rc = tok_decode(a->model->tok, x->ids.v, x->ids.n, true, &text);
    struct store_answer row = {.target_id = a->target_id,
                               .prompt_index = i,
                               .prompt = a->prompts[i],
                               .text = buf_cstr(&text),
                               .n_tokens = x->ids.n,
                               .finish_reason = finish_name((enum finish)x->finish)};
    rc = rc ? rc : store_answer(a->store, &row);
    buf_fini(&text);
    return rc;
}

int answers_run(const struct answers_job *a) {
    struct answer *list = mem_array(MEM_HARNESS, a->n_prompts, (int64_t)sizeof *list);
    if (!list) {
        return ERR_NOMEM;
    }
    int rc = submit_all(a, list);
    rc = rc ? rc : pump(a, list);
    for (int32_t i = 0; i < a->n_prompts; i++) {
        rc = rc ? rc : store_one(a, i, &list[i]);
        tok_ids_fini(&list[i].ids);
    }
    mem_free(list);
    return rc;
}
