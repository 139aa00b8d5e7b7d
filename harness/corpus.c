/* The good streams are a product: line end x blank behind the colon x noise x content. The broken
 * ones are a table x line end. A row of the table says what stands between the first tokens and the
 * end, and how the connection ends.
 *
 * Faults that clients are known for, and the cases that hold them: comments in front of data
 * (noise), CRLF and CR (line end), no blank, several data lines, a mark of byte order, an error
 * after tokens, an error with status 200, a stream without its end. */
#include "harness/corpus.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/str.h"

struct writer {
    struct corpus_case *c;
    const char *eol;
    const char *data; /* "data: " or "data:" */
    int32_t noise;
    int rc;
};

static const struct {
    const char *name;
    const char *eol;
} eols[] = {{"lf", "\n"}, {"crlf", "\r\n"}, {"cr", "\r"}};

static const struct {
    const char *name;
    const char *data;
} blanks[] = {{"blank", "data: "}, {"tight", "data:"}};

static const char *const noises[] = {"plain", "comments", "bom", "fields"};

/* Contents: events of one stream. "|" in a piece begins a new data line. tokens: of each piece. */
static const struct {
    const char *name;
    enum chunk_api api;
    const char *shape; /* printf format of one piece's JSON, %s: the piece as JSON text */
    const char *piece[6];
    const char *text; /* all pieces, decoded */
    int32_t n_tokens;
    const char *last; /* what follows the pieces; "" nothing */
    bool has_done;
} contents[] = {
    {"chat",
     CHUNK_CHAT,
     "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"}}]}",
     {"Hello", ",", " world", "!"},
     "Hello, world!",
     4,
     "{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}",
     true},
    {"text",
     CHUNK_CHAT,
     "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"},\"finish_reason\":null}]}",
     {"\\u00e9t\\u00e9 ", "na\xc3\xafve \xe2\x82\xac", " \\ud83d\\ude00",
      "\\n\\\"q\\\" data: x\\n\\n", "  "},
     "\xc3\xa9t\xc3\xa9 na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80\n\"q\" data: x\n\n  ",
     5,
     "{\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5}}",
     true},
    {"thought",
     CHUNK_CHAT,
     "{\"choices\":[{\"delta\":{\"content\":null,\"reasoning_content\":\"%s\"}}]}",
     {"hm", " so", " 4"},
     "hm so 4",
     3,
     "{\"choices\":[{\"delta\":{\"content\":\"\"},\"finish_reason\":\"length\"}]}",
     true},
    {"tool",
     CHUNK_CHAT,
     "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"%s\"}}]}"
     "}]}",
     {"{\\\"a\\\":", "1", "}"},
     "{\"a\":1}",
     3,
     "{\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}",
     true},
    {"several",
     CHUNK_CHAT,
     "{\"choices\":[{\"delta\":{\"content\":\"%s\"},\"logprobs\":{\"content\":[{},{},{}]}}]}",
     {"one two three", " four five six"},
     "one two three four five six",
     6,
     "",
     true},
    {"lines",
     CHUNK_CHAT,
     "{\"choices\":|[{\"delta\":|{\"content\":\"%s\"}}]|}",
     {"a", "b"},
     "ab",
     2,
     "",
     true},
    {"plain",
     CHUNK_COMPLETIONS,
     "{\"choices\":[{\"text\":\"%s\",\"finish_reason\":null}]}",
     {"It", " was", " so"},
     "It was so",
     3,
     "{\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":2,"
     "\"completion_tokens\":3}}",
     true},
    {"items",
     CHUNK_RESPONSES,
     "{\"type\":\"response.output_text.delta\",\"delta\":\"%s\"}",
     {"Yes", " and", " no"},
     "Yes and no",
     3,
     "{\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"usage\":{"
     "\"input_tokens\":3,\"output_tokens\":3}}}",
     false}};

enum { N_GOOD = ARRAY_LEN(eols) * ARRAY_LEN(blanks) * ARRAY_LEN(noises) * ARRAY_LEN(contents) };

#define TOKEN  "{\"choices\":[{\"delta\":{\"content\":\"x\"}}]}"
#define SSE    "text/event-stream"
#define JSON   "application/json"
#define BROKEN "{\"error\":{\"message\":\"out of order\",\"code\":500}}"

/* Broken answers. mid: one event in the middle ("": none); body: in place of a stream, NULL: a
 * stream of n_tokens tokens, mid, and [DONE] when done. */
static const struct {
    const char *name;
    int32_t status;
    const char *type;
    const char *head;
    const char *body;
    int32_t n_tokens;
    const char *mid;
    bool done;
    bool whole; /* no stream was asked for */
    enum corpus_end end;
    enum reply_class want;
} faults[] = {
    {"no_done", 200, SSE, "", NULL, 3, "", false, false, CORPUS_CLEAN, REPLY_NO_DONE},
    {"no_done_close", 200, SSE, "", NULL, 3, "", false, false, CORPUS_CLOSE, REPLY_NO_DONE},
    {"early_fin", 200, SSE, "", NULL, 3, "", false, false, CORPUS_FIN, REPLY_CUT},
    {"early_rst", 200, SSE, "", NULL, 3, "", false, false, CORPUS_RST, REPLY_RESET},
    {"fin_at_once", 200, SSE, "", NULL, 0, "", false, false, CORPUS_FIN, REPLY_CUT},
    {"stall", 200, SSE, "", NULL, 2, "", false, false, CORPUS_STALL, REPLY_STALLED},
    {"stall_at_once", 200, SSE, "", NULL, 0, "", false, false, CORPUS_STALL, REPLY_STALLED},
    {"fin_after_done", 200, SSE, "", NULL, 3, "", true, false, CORPUS_FIN, REPLY_OK},
    {"rst_after_done", 200, SSE, "", NULL, 3, "", true, false, CORPUS_RST, REPLY_OK},
    {"half_closed", 200, SSE, "", NULL, 3, "", true, false, CORPUS_CLOSE, REPLY_OK},
    {"role_only", 200, SSE, "", NULL, 0,
     "{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}", true, false,
     CORPUS_CLEAN, REPLY_OK},
    {"empty_stream", 200, SSE, "", "", 0, "", false, false, CORPUS_CLEAN, REPLY_EMPTY_STREAM},
    {"only_comments", 200, SSE, "", ": ping\n\n: ping\n\n", 0, "", false, false, CORPUS_CLEAN,
     REPLY_EMPTY_STREAM},
    {"error_event", 200, SSE, "", NULL, 2, BROKEN, false, false, CORPUS_CLEAN, REPLY_ERROR_EVENT},
    {"error_event_done", 200, SSE, "", NULL, 2, BROKEN, true, false, CORPUS_CLEAN,
     REPLY_ERROR_EVENT},
    {"error_text", 200, SSE, "", NULL, 1, "{\"error\":\"engine died\"}", true, false, CORPUS_CLEAN,
     REPLY_ERROR_EVENT},
    {"error_object", 200, SSE, "", NULL, 1,
     "{\"object\":\"error\",\"message\":\"too long\",\"code\":400}", true, false, CORPUS_CLEAN,
     REPLY_ERROR_EVENT},
    {"bad_json", 200, SSE, "", NULL, 2, "{\"choices\":[{\"delta\":{\"content\":\"x", true, false,
     CORPUS_CLEAN, REPLY_BAD_JSON},
    {"no_json", 200, SSE, "", NULL, 1, "upstream went away", true, false, CORPUS_CLEAN,
     REPLY_BAD_JSON},
    {"bad_utf8", 200, SSE, "", NULL, 1, "{\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}", true,
     false, CORPUS_CLEAN, REPLY_BAD_JSON},
    {"bad_shape", 200, SSE, "", NULL, 1, "{\"hello\":1}", true, false, CORPUS_CLEAN,
     REPLY_BAD_SHAPE},
    {"not_sse", 200, "text/html", "", "<html>welcome</html>", 0, "", false, false, CORPUS_CLEAN,
     REPLY_NOT_SSE},
    {"not_streamed", 200, JSON, "",
     "{\"choices\":[{\"message\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}", 0, "", false,
     false, CORPUS_CLEAN, REPLY_NOT_SSE},
    {"no_type", 200, "", "", "data: " TOKEN "\n\n", 0, "", false, false, CORPUS_CLEAN,
     REPLY_NOT_SSE},
    {"error_body", 200, JSON, "", BROKEN, 0, "", false, false, CORPUS_CLEAN, REPLY_ERROR_BODY},
    {"http_400", 400, JSON, "", BROKEN, 0, "", false, false, CORPUS_CLEAN, REPLY_CLIENT_ERROR},
    {"http_401", 401, "text/plain", "", "who are you?", 0, "", false, false, CORPUS_CLEAN,
     REPLY_CLIENT_ERROR},
    {"http_404", 404, JSON, "", "{\"detail\":\"Not Found\"}", 0, "", false, false, CORPUS_CLEAN,
     REPLY_CLIENT_ERROR},
    {"http_429", 429, JSON, "Retry-After: 2\r\n", BROKEN, 0, "", false, false, CORPUS_CLEAN,
     REPLY_RATE_LIMITED},
    {"http_500", 500, JSON, "", BROKEN, 0, "", false, false, CORPUS_CLEAN, REPLY_SERVER_ERROR},
    {"http_503", 503, "text/plain", "Retry-After: 1\r\n", "busy", 0, "", false, false, CORPUS_CLOSE,
     REPLY_SERVER_ERROR},
    {"http_204", 204, "", "", "", 0, "", false, false, CORPUS_CLEAN, REPLY_BAD_STATUS},
    {"http_302", 302, "", "Location: /\r\n", "", 0, "", false, false, CORPUS_CLEAN,
     REPLY_BAD_STATUS},
    {"no_answer", 0, "", "", "", 0, "", false, false, CORPUS_FIN, REPLY_NO_ANSWER},
    {"rst_answer", 0, "", "", "", 0, "", false, false, CORPUS_RST, REPLY_RESET},
    {"whole", 200, JSON, "",
     "{\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"yes it is\"},"
     "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":3}}",
     0, "", false, true, CORPUS_CLEAN, REPLY_OK},
    {"whole_error", 200, JSON, "", BROKEN, 0, "", false, true, CORPUS_CLEAN, REPLY_ERROR_BODY},
    {"whole_no_json", 200, JSON, "", "{\"choices\":[", 0, "", false, true, CORPUS_CLEAN,
     REPLY_BAD_JSON},
    {"whole_bad_shape", 200, JSON, "", "{\"choices\":[]}", 0, "", false, true, CORPUS_CLEAN,
     REPLY_BAD_SHAPE},
    {"whole_cut", 200, JSON, "", "{\"choices\":[{\"message\":{\"content\":\"yes", 0, "", false,
     true, CORPUS_FIN, REPLY_CUT}};

int32_t corpus_n(void) {
    return N_GOOD + ARRAY_LEN(faults) * ARRAY_LEN(eols);
}

static void put(struct writer *w, const char *s) {
    w->rc = w->rc ? w->rc : buf_str(&w->c->body, s);
}

static void put_line(struct writer *w, const char *a, const char *b) {
    put(w, a);
    put(w, b);
    put(w, w->eol);
}

/* One event; "|" in it begins a new data line. */
static void put_event(struct writer *w, const char *json, bool split) {
    char part[512];
    if (w->noise == 1) {
        put_line(w, ": keep-alive", "");
        put_line(w, "", "");
        put_line(w, ":", "");
    } else if (w->noise == 3) {
        put_line(w, "event: message", "");
        put_line(w, "id: 7", "");
        put_line(w, "retry:10", "");
        put_line(w, "unknown", "");
    }
    for (const char *at = json; *at;) {
        size_t n = split ? strcspn(at, "|") : strlen(at);
        snprintf(part, sizeof part, "%.*s", (int)n, at);
        put_line(w, w->data, part);
        at += n + (at[n] == '|' ? 1 : 0);
    }
    put_line(w, "", "");
}

static void set_head(struct corpus_case *c, int32_t status, const char *type, const char *head) {
    c->status = status;
    (void)str_copy(c->type, CORPUS_HEAD_MAX, type);
    (void)str_copy(c->head, CORPUS_HEAD_MAX, head);
}

/* The shape with the piece in place of its %s. */
static void put_piece(struct writer *w, const char *shape, const char *piece) {
    char json[512];
    const char *mark = strstr(shape, "%s");
    int before = mark ? (int)(mark - shape) : 0;
    snprintf(json, sizeof json, "%.*s%s%s", before, shape, piece, mark ? mark + 2 : "");
    put_event(w, json, strchr(shape, '|') != NULL);
}

static int make_good(int32_t i, struct corpus_case *c) {
    int32_t what = i % ARRAY_LEN(contents);
    int32_t noise = i / ARRAY_LEN(contents) % ARRAY_LEN(noises);
    int32_t blank = i / (ARRAY_LEN(contents) * ARRAY_LEN(noises)) % ARRAY_LEN(blanks);
    int32_t eol = i / (ARRAY_LEN(contents) * ARRAY_LEN(noises) * ARRAY_LEN(blanks));
    struct writer w = {.c = c, .eol = eols[eol].eol, .data = blanks[blank].data, .noise = noise};
    snprintf(c->name, CORPUS_NAME_MAX, "%s-%s-%s-%s", contents[what].name, eols[eol].name,
             blanks[blank].name, noises[noise]);
    c->api = contents[what].api;
    c->stream = true;
    c->n_tokens = contents[what].n_tokens;
    set_head(c, 200, noise == 2 ? SSE "; charset=utf-8" : SSE, "");
    put(&w, noise == 2 ? "\xef\xbb\xbf" : "");
    if (c->api == CHUNK_CHAT) {
        put_event(&w, "{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}",
                  false);
    }
    for (int32_t k = 0; k < 6 && contents[what].piece[k]; k++) {
        put_piece(&w, contents[what].shape, contents[what].piece[k]);
    }
    if (contents[what].last[0]) {
        put_event(&w, contents[what].last, false);
    }
    if (contents[what].has_done) {
        put_event(&w, "[DONE]", false);
    }
    return w.rc ? w.rc : buf_str(&c->text, contents[what].text);
}

static int make_fault(int32_t i, struct corpus_case *c) {
    int32_t f = i / ARRAY_LEN(eols);
    int32_t eol = i % ARRAY_LEN(eols);
    struct writer w = {.c = c, .eol = eols[eol].eol, .data = blanks[0].data};
    snprintf(c->name, CORPUS_NAME_MAX, "%s%s%s", faults[f].name, eol > 0 ? "-" : "",
             eol > 0 ? eols[eol].name : "");
    c->stream = !faults[f].whole;
    c->end = faults[f].end;
    c->want = faults[f].want;
    set_head(c, faults[f].status, faults[f].type, faults[f].head);
    if (faults[f].body) {
        put(&w, faults[f].body);
        if (str_eq(faults[f].name, "whole")) {
            c->n_tokens = 3;
            return w.rc ? w.rc : buf_str(&c->text, "yes it is");
        }
        return w.rc;
    }
    for (int32_t k = 0; k < faults[f].n_tokens; k++) {
        put_event(&w, TOKEN, false);
        w.rc = w.rc ? w.rc : buf_str(&c->text, "x");
    }
    c->n_tokens = faults[f].n_tokens;
    if (faults[f].mid[0]) {
        put_event(&w, faults[f].mid, false);
    }
    if (faults[f].done) {
        put_event(&w, "[DONE]", false);
    }
    return w.rc;
}

int corpus_make(int32_t i, struct corpus_case *c) {
    *c = (struct corpus_case){0};
    buf_init(&c->body, MEM_HARNESS, CORPUS_BODY_MAX);
    buf_init(&c->text, MEM_HARNESS, CORPUS_BODY_MAX);
    int rc = i < N_GOOD ? make_good(i, c) : make_fault(i - N_GOOD, c);
    if (rc) {
        corpus_fini(c);
    }
    return rc;
}

void corpus_fini(struct corpus_case *c) {
    buf_fini(&c->body);
    buf_fini(&c->text);
}

int32_t corpus_find(const char *name) {
    int64_t number = 0;
    int32_t n = corpus_n();
    if (name[0] >= '0' && name[0] <= '9') {
        int rc = str_i64(name, 0, n - 1, &number);
        err_clear();
        return rc ? -1 : (int32_t)number;
    }
    for (int32_t i = 0; i < n; i++) {
        struct corpus_case c;
        if (corpus_make(i, &c)) {
            return -1;
        }
        bool same = str_eq(c.name, name);
        corpus_fini(&c);
        if (same) {
            return i;
        }
    }
    return -1;
}

static int collect(void *ctx, const struct reply_event *ev) {
    return buf_add(ctx, ev->text, ev->n);
}

int corpus_read(const struct corpus_case *c,
                const int64_t *cut,
                int32_t n_cut,
                struct reply *r,
                struct buf *text) {
    static const enum reply_class ends[] = {[CORPUS_CLEAN] = REPLY_OK,
                                            [CORPUS_CLOSE] = REPLY_OK,
                                            [CORPUS_FIN] = REPLY_CUT,
                                            [CORPUS_RST] = REPLY_RESET,
                                            [CORPUS_STALL] = REPLY_STALLED};
    const char *retry = str_starts(c->head, "Retry-After: ") ? "1" : NULL;
    const char *p = buf_cstr(&c->body);
    int64_t at = 0;
    bool goes_on = true;
    reply_reset(
        r, &(struct reply_opts){.api = c->api, .stream = c->stream, .fn = collect, .ctx = text});
    buf_clear(text);
    if (c->status > 0) {
        reply_head(r, c->status, c->type[0] ? c->type : NULL, retry);
    }
    for (int32_t i = 0; i <= n_cut && goes_on; i++) {
        int64_t to = i < n_cut ? i64_min(cut[i], c->body.len) : c->body.len;
        goes_on = to <= at || reply_feed(r, p + at, to - at);
        at = i64_max(at, to);
    }
    reply_end(r, ends[c->end], NULL);
    return r->kind == REPLY_NO_MEMORY ? ERR_NOMEM : 0;
}
