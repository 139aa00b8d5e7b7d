/* trilemma serve: the OpenAI API on the engine of this process. */
#include <stdio.h>

#include "engine/base/err.h"
#include "engine/base/log.h"
#include "engine/serve/server.h"
#include "harness/cmds.h"
#include "harness/interrupt.h"
#include "harness/session.h"

struct serve {
    struct session_opts so;
    struct server_opts sv;
    const char *name;
    const char *key_env;
    int32_t running_max;
    int32_t port;
    int64_t grace_ns;
    bool verbose;
    bool json;
};

/* The key by the name of its variable; it is never printed. */
static int find_key(const struct cli_env *env, struct serve *v) {
    if (!v->key_env) {
        return 0;
    }
    v->sv.key = env->lookup ? env->lookup(v->key_env) : NULL;
    return v->sv.key && v->sv.key[0]
               ? 0
               : err_set(ERR_USAGE, "--api-key-env %s: the variable is not set", v->key_env);
}

/* Says where the server is, once it can be asked. */
static int announce(const struct serve *v, const struct server *server, const char *engine) {
    if (v->json) {
        json_t *out = json_pack("{s:s, s:i, s:s, s:s}", "url", server_url(server), "port",
                                server_port(server), "model", v->sv.name, "engine", engine);
        if (!out) {
            return err_set(ERR_FORMAT, "the model's name is no valid UTF-8");
        }
        json_dumpf(out, stdout, JSON_COMPACT);
        printf("\n");
        json_decref(out);
    } else {
        printf("serving %s at %s/v1 (%s)\n", v->sv.name, server_url(server), engine);
    }
    return fflush(stdout) == 0 ? 0 : err_set(ERR_IO, "cannot write standard output");
}

static int serve(struct serve *v, struct session *s) {
    struct server *server = NULL;
    int rc = session_engine(
        s, &v->so,
        &(struct engine_opts){.running_max = v->running_max, .waiting_max = v->sv.calls_max});
    if (rc) {
        return rc;
    }
    v->sv.engine = s->engine;
    v->sv.model = s->model;
    rc = server_open(&v->sv, &server);
    if (rc) {
        return rc;
    }
    rc = announce(v, server, engine_describe(s->engine));
    if (!rc) {
        interrupt_wait();
        server_drain(server, v->grace_ns);
    }
    server_close(server);
    return rc;
}

static int run(const struct cmd *self, const struct cli_env *env, int argc, char **argv) {
    struct serve v = {.port = 8000,
                      .running_max = 32,
                      .grace_ns = INT64_C(30000000000),
                      .sv = {.calls_max = 256}};
    struct cli_args args;
    struct session s = {0};
    const struct cli_opt opts[] = {
        {"host", CLI_STR, &v.sv.host, "HOST", "listen there [127.0.0.1]", 0, 0},
        {"port", CLI_I32, &v.port, "N", "0: any free one, which is printed [8000]", 0, 65535},
        {"name", CLI_STR, &v.name, "NAME", "what clients call the model [MODEL as given]", 0, 0},
        {"api-key-env", CLI_STR, &v.key_env, "VAR", "ask for the key in this variable [no key]", 0,
         0},
        {"running", CLI_I32, &v.running_max, "N", "answers in a step at most [32]", 1, 1 << 20},
        {"requests", CLI_I32, &v.sv.calls_max, "N", "answers in the making; more get 429 [256]", 1,
         1 << 20},
        {"connections", CLI_I32, &v.sv.conns_max, "N", "open connections [1024]", 1, 1 << 20},
        {"http-threads", CLI_I32, &v.sv.n_http_threads, "N", "threads for HTTP [4]", 1, 256},
        {"body-max", CLI_BYTES, &v.sv.body_max, "SIZE",
         "largest body; a larger one gets 413 [8MiB]", 0, 0},
        {"backlog-max", CLI_BYTES, &v.sv.backlog_max, "SIZE",
         "unread bytes of a stream before it is cut [4MiB]", 0, 0},
        {"header-timeout", CLI_DURATION, &v.sv.head_ns, "T", "for the first request's head [10s]",
         0, 0},
        {"idle-timeout", CLI_DURATION, &v.sv.idle_ns, "T",
         "for a later head, a body, a stalled reader [60s]", 0, 0},
        {"drain", CLI_DURATION, &v.grace_ns, "T", "after Ctrl-C, for what was begun [30s]", 0, 0},
        {"verbose", CLI_FLAG, &v.verbose, NULL, "a line on standard error for each request", 0, 0},
        {"json", CLI_FLAG, &v.json, NULL, "say where it listens as one JSON line", 0, 0},
        SESSION_OPTS(v.so)};
    int rc = cli_parse(self, opts, ARRAY_LEN(opts), argc, argv, 1, 1, &args);
    if (rc || args.help) {
        return rc;
    }
    v.sv.name = v.name ? v.name : args.pos[0];
    v.sv.port = v.port;
    rc = find_key(env, &v);
    if (rc) {
        return rc;
    }
    log_init(v.verbose ? LOG_INFO : LOG_WARN);
    interrupt_install();
    interrupt_hold();
    rc = session_model(env, args.pos[0], &s);
    rc = rc ? rc : serve(&v, &s);
    session_close(&s);
    return rc;
}

const struct cmd cmd_serve = {.name = "serve",
                              .summary = "Serve the OpenAI API over HTTP on the built-in engine.",
                              .usage = "MODEL [options]",
                              .example = "trilemma serve smollm2-135m --port 8000 --verbose",
                              .run = run};
