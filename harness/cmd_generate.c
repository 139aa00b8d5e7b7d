/* trilemma generate: one prompt, streamed to the terminal. */
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/sched/seq.h"
#include "engine/text/detok.h"
#include "harness/cmds.h"
#include "harness/interrupt.h"
#include "harness/session.h"

struct generate {
    struct session_opts so;
    const char *prompt;
    const char *system;
    const char *ids_file;
    int32_t max_tokens;
    double temperature;
    double top_p;
    double min_p;
    int32_t top_k;
    int64_t seed;
    bool ignore_eos;
    bool raw;
    bool json;
};

struct outcome {
    struct tok_ids ids; /* own, new tokens */
    struct buf text;    /* own */
    int64_t start_ns;
    int64_t first_ns; /* -1: no token came */
    int64_t end_ns;
    struct event end;
};

static int add_message(json_t *messages, const char *role, const char *content) {
    json_t *m = json_pack("{s:s, s:s}", "role", role, "content", content);
    return m && json_array_append_new(messages, m) == 0
               ? 0
               : err_set(ERR_FORMAT, "the %s's message is no valid UTF-8", role);
}

static int chat_prompt(const struct generate *g, const struct model *m, struct tok_ids *ids) {
    json_t *messages = json_array();
    int rc = g->system ? add_message(messages, "system", g->system) : 0;
    rc = rc ? rc : add_message(messages, "user", g->prompt);
    rc = rc ? rc : model_chat_ids(m, messages, clock_wall_ns() / 1000000000, ids);
    json_decref(messages);
    return rc;
}

static int make_prompt(const struct generate *g, const struct model *m, struct tok_ids *ids) {
    if (g->ids_file) {
        json_t *lists = NULL;
        const json_t *list = NULL;
        int rc = session_read_ids(g->ids_file, &lists);
        rc = rc ? rc : session_one_list(g->ids_file, lists, &list);
        rc = rc ? rc : session_ids(g->ids_file, list, m->weights->cfg.vocab, ids);
        json_decref(lists);
        return rc;
    }
    if (m->chat && !g->raw) {
        return chat_prompt(g, m, ids);
    }
    int rc = model_need_tok(m);
    return rc ? rc
              : tok_encode(m->tok, g->prompt, (int64_t)strlen(g->prompt),
                           TOK_PARSE_SPECIAL | TOK_ADD_SPECIAL, ids);
}

/* Prints the text that became complete since the last call. */
static int stream(const struct generate *g, const struct outcome *o, int64_t *shown) {
    size_t n = (size_t)(o->text.len - *shown);
    bool lost = !g->json && n > 0 &&
                (fwrite(o->text.data + *shown, 1, n, stdout) != n || fflush(stdout) != 0);
    *shown = o->text.len;
    return lost ? err_set(ERR_IO, "cannot write standard output") : 0;
}

static int take_event(const struct event *ev, struct detok *d, struct outcome *o) {
    if (ev->kind == EVENT_END) {
        o->end = *ev;
        o->end_ns = ev->t_ns;
        return 0;
    }
    if (o->first_ns < 0) {
        o->first_ns = ev->t_ns;
    }
    int rc = tok_ids_add(&o->ids, ev->token);
    return rc || !d->tok ? rc : detok_push(d, ev->token, &o->text);
}

static int
pump(const struct generate *g, struct engine *e, uint64_t id, struct detok *d, struct outcome *o) {
    int64_t shown = 0;
    bool aborted = false;
    while (o->end_ns == 0) {
        struct event ev[16];
        bool busy = false;
        if (interrupt_seen() && !aborted) {
            engine_abort(e, id);
            aborted = true;
        }
        int rc = engine_step(e, &busy);
        int32_t n = engine_poll(e, ev, 16);
        for (int32_t i = 0; i < n && !rc; i++) {
            rc = take_event(&ev[i], d, o);
        }
        rc = rc ? rc : stream(g, o, &shown);
        if (rc) {
            return rc;
        }
    }
    int rc = d->tok ? detok_flush(d, &o->text) : 0;
    rc = rc ? rc : stream(g, o, &shown);
    if (!rc && o->end.finish == FINISH_ERROR) {
        rc = err_set(ERR_NUMERIC, "generation failed: %s", err_msg());
    }
    return rc;
}

static int print_json(const struct outcome *o, int32_t n_prompt, const char *engine) {
    json_t *ids = json_array();
    for (int32_t i = 0; i < o->ids.n; i++) {
        json_array_append_new(ids, json_integer(o->ids.v[i]));
    }
    double ttft = o->first_ns < 0 ? 0 : (double)(o->first_ns - o->start_ns) * 1e-9;
    double total = (double)(o->end_ns - o->start_ns) * 1e-9;
    json_t *out = json_pack(
        "{s:o, s:s#, s:s, s:i, s:i, s:o, s:f, s:s}", "ids", ids, "text", buf_cstr(&o->text),
        (size_t)o->text.len, "finish_reason", finish_name((enum finish)o->end.finish), "n_prompt",
        n_prompt, "n_cached", o->end.n_cached, "ttft_s",
        o->first_ns < 0 ? json_null() : json_real(ttft), "e2e_s", total, "engine", engine);
    if (!out) {
        return err_set(ERR_INTERNAL, "the answer is no valid UTF-8");
    }
    json_dumpf(out, stdout, JSON_COMPACT);
    printf("\n");
    json_decref(out);
    return 0;
}

static void print_times(const struct outcome *o, int32_t n_prompt) {
    printf("\n");
    fflush(stdout);
    if (o->first_ns < 0) {
        fprintf(stderr, "[%d prompt tokens, no new token; %s]\n", n_prompt,
                finish_name((enum finish)o->end.finish));
        return;
    }
    double ttft = (double)(o->first_ns - o->start_ns) * 1e-9;
    double rest = (double)(o->end_ns - o->first_ns) * 1e-9;
    fprintf(stderr, "[%d prompt tokens, first token after %.3f s; %d new tokens", n_prompt, ttft,
            o->ids.n);
    if (o->ids.n > 1 && rest > 0) {
        fprintf(stderr, ", %.1f tokens/s", (o->ids.n - 1) / rest);
    }
    fprintf(stderr, "; %s]\n", finish_name((enum finish)o->end.finish));
}

static int
generate(const struct generate *g, struct session *s, struct tok_ids *prompt, struct outcome *o) {
    struct detok d;
    uint64_t id = 0;
    struct engine_request r = {.ids = prompt->v,
                               .n_ids = prompt->n,
                               .max_new = g->max_tokens,
                               .ignore_stop = g->ignore_eos,
                               .sampling = {.temperature = (float)g->temperature,
                                            .top_p = (float)g->top_p,
                                            .min_p = (float)g->min_p,
                                            .top_k = g->top_k,
                                            .seed = (uint64_t)g->seed}};
    int rc = session_engine(s, &g->so, &(struct engine_opts){.running_max = 1});
    if (rc) {
        return rc;
    }
    detok_init(&d, s->model->tok, true);
    o->start_ns = clock_now_ns();
    o->first_ns = -1;
    rc = engine_submit(s->engine, &r, &id);
    rc = rc ? rc : pump(g, s->engine, id, &d, o);
    detok_fini(&d);
    if (!rc && g->json) {
        rc = print_json(o, prompt->n, engine_describe(s->engine));
    } else if (!rc) {
        print_times(o, prompt->n);
    }
    if (!rc && o->end.finish == FINISH_ABORT) {
        rc = err_set(ERR_CANCELED, "interrupted after %d new tokens", o->ids.n);
    }
    return rc;
}

static int run(const struct cmd *self, const struct cli_env *env, int argc, char **argv) {
    struct generate g = {.max_tokens = 256};
    struct cli_args args;
    const struct cli_opt opts[] = {
        {"prompt,p", CLI_STR, &g.prompt, "TEXT", "the user's message (chat template applied)", 0,
         0},
        {"system", CLI_STR, &g.system, "TEXT", "the system message", 0, 0},
        {"raw", CLI_FLAG, &g.raw, NULL, "take the text as it is, without the chat template", 0, 0},
        {"ids", CLI_STR, &g.ids_file, "FILE", "JSON list of token ids instead of a text", 0, 0},
        {"max-tokens", CLI_I32, &g.max_tokens, "N", "new tokens at most [256]", 0, 1 << 24},
        {"temperature", CLI_F64, &g.temperature, "T", "0 is greedy [0]", 0, 0},
        {"top-p", CLI_F64, &g.top_p, "P", "nucleus of mass P [all]", 0, 0},
        {"top-k", CLI_I32, &g.top_k, "K", "the K most likely tokens [all]", 0, 0},
        {"min-p", CLI_F64, &g.min_p, "P", "tokens of at least P times the best [all]", 0, 0},
        {"seed", CLI_I64, &g.seed, "S", "seed of the draws [0]", 0, 0},
        {"ignore-eos", CLI_FLAG, &g.ignore_eos, NULL, "go on past the end token", 0, 0},
        {"json", CLI_FLAG, &g.json, NULL, "one JSON line instead of the text", 0, 0},
        SESSION_OPTS(g.so)};
    int rc = cli_parse(self, opts, ARRAY_LEN(opts), argc, argv, 1, 1, &args);
    if (rc || args.help) {
        return rc;
    }
    if (!g.prompt == !g.ids_file) {
        return err_set(ERR_USAGE, "give one of -p TEXT and --ids FILE");
    }
    struct session s = {0};
    struct outcome o = {0};
    struct tok_ids prompt;
    tok_ids_init(&prompt);
    tok_ids_init(&o.ids);
    buf_init(&o.text, MEM_HARNESS, INT32_MAX);
    interrupt_install();
    rc = session_model(env, args.pos[0], &s);
    rc = rc ? rc : make_prompt(&g, s.model, &prompt);
    rc = rc ? rc : generate(&g, &s, &prompt, &o);
    tok_ids_fini(&prompt);
    tok_ids_fini(&o.ids);
    buf_fini(&o.text);
    session_close(&s);
    return rc;
}

const struct cmd cmd_generate = {
    .name = "generate",
    .summary = "Answer one prompt, streamed to the terminal.",
    .usage = "MODEL (-p TEXT | --ids FILE) [options]",
    .example =
        "trilemma generate smollm2-135m -p \"What is the capital of France?\" --max-tokens 64",
    .run = run};
