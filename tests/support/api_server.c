#include "tests/support/support.h"

#include "tests/support/api_server.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "tests/support/api_client.h"
#include "tests/support/tiny.h"

static const int64_t WAIT_NS = INT64_C(60000000000);

static void open_engine(const struct api_server *s, const char *backend, struct engine **e) {
    const struct engine_opts o = {.backend = backend,
                                  .n_threads = 1,
                                  .running_max = 32,
                                  .waiting_max = 256,
                                  .kv_bytes = 64 << 20};
    assert_ok(engine_open(s->model->weights, &o, e));
}

void api_server_start(struct api_server *s, const char *backend, const struct server_opts *so) {
    char path[FILE_PATH_MAX];
    struct server_opts o = so ? *so : (struct server_opts){0};
    memset(s, 0, sizeof *s);
    test_tmpdir(s->dir);
    tiny_model(s->dir, "tiny", API_SERVER_CTX);
    assert_ok(file_join(path, s->dir, "tiny"));
    assert_ok(model_open(path, NULL, &s->model));
    open_engine(s, backend, &s->engine);
    o.engine = s->engine;
    o.model = s->model;
    o.name = "tiny";
    assert_ok(server_open(&o, &s->server));
    s->port = server_port(s->server);
}

void api_server_stop(struct api_server *s) {
    server_close(s->server);
    engine_close(s->engine);
    model_close(s->model);
    test_rmdir(s->dir);
}

int32_t api_server_tokens(const struct api_server *s,
                          const char *backend,
                          const struct engine_request *r,
                          int32_t *tokens,
                          int32_t cap) {
    struct engine *e = NULL;
    uint64_t id = 0;
    int32_t n = 0;
    open_engine(s, backend, &e);
    assert_ok(engine_submit(e, r, &id));
    for (bool over = false; !over;) {
        struct event ev;
        bool busy = false;
        assert_ok(engine_step(e, &busy));
        while (engine_poll(e, &ev, 1) == 1) {
            over = ev.kind == EVENT_END;
            if (!over) {
                assert_true(n < cap);
                tokens[n++] = ev.token;
            }
        }
    }
    engine_close(e);
    return n;
}

double api_server_metric(const struct api_server *s, const char *line) {
    struct api_reply r;
    double v = (double)NAN;
    if (api_ask(s->port, "GET", "/metrics", NULL, &r) == 200) {
        const char *at = strstr(buf_cstr(&r.body), line);
        v = at ? strtod(at + strlen(line), NULL) : v;
    }
    api_reply_fini(&r);
    return v;
}

void api_server_wait(const struct api_server *s, const char *line, double value) {
    int64_t until = clock_now_ns() + WAIT_NS;
    double v = api_server_metric(s, line);
    while (v != value) {
        if (clock_now_ns() > until) {
            fail_msg("%s is %g, want %g", line, v, value);
        }
        v = api_server_metric(s, line);
    }
}
