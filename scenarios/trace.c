/* Trace readers.
 *
 * Times become nanoseconds from the first request. The Azure stamp has seven decimals (100 ns); it
 * is read as a civil date without a time zone, since only differences matter.
 * src: Azure/AzurePublicDataset, AzureLLMInferenceTrace (Splitwise, 2023); kvcache-ai/Mooncake,
 * traces (FAST 2025); days of a civil date: H. Hinnant, "chrono-compatible low-level date
 * algorithms". */
#include "scenarios/trace.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"

enum { ROW_MAX = 128, STAMP_LEN = 19, NS_PER_MS = 1000000 };

struct row {
    int64_t t_ns; /* absolute */
    int32_t n_prompt;
    int32_t n_output;
    const json_t *blocks; /* ref, array or NULL */
};

void trace_fini(struct trace *t) {
    mem_free(t->start_ns);
    mem_free(t->n_prompt);
    mem_free(t->n_output);
    mem_free(t->block_at);
    mem_free(t->blocks);
    *t = (struct trace){0};
}

static int grow(void *array, int64_t n, int64_t size) {
    void **p = array;
    void *bigger = mem_realloc(MEM_DATA, *p, n * size);
    if (!bigger) {
        return ERR_NOMEM;
    }
    *p = bigger;
    return 0;
}

static int reserve_requests(struct trace *t) {
    if (t->n < t->cap) {
        return 0;
    }
    if (t->n >= TRACE_REQUESTS_MAX) {
        return err_set(ERR_LIMIT, "more than %d requests", (int)TRACE_REQUESTS_MAX);
    }
    int64_t cap = i64_max(256, t->cap * 2);
    int rc = grow(&t->start_ns, cap, (int64_t)sizeof *t->start_ns);
    rc = rc ? rc : grow(&t->n_prompt, cap, (int64_t)sizeof *t->n_prompt);
    rc = rc ? rc : grow(&t->n_output, cap, (int64_t)sizeof *t->n_output);
    rc = rc ? rc : grow(&t->block_at, cap + 1, (int64_t)sizeof *t->block_at);
    t->cap = rc ? t->cap : cap;
    return rc;
}

static int add_blocks(struct trace *t, const json_t *ids) {
    int64_t at = t->block_at[t->n];
    int64_t n = ids ? (int64_t)json_array_size(ids) : 0;
    if (n > TRACE_BLOCKS_MAX) {
        return err_set(ERR_FORMAT, "%lld hash_ids, at most %d", (long long)n,
                       (int)TRACE_BLOCKS_MAX);
    }
    if (at + n > t->blocks_cap) {
        int64_t cap = i64_max(at + n, t->blocks_cap * 2);
        int rc = grow(&t->blocks, cap, (int64_t)sizeof *t->blocks);
        if (rc) {
            return rc;
        }
        t->blocks_cap = cap;
    }
    for (int64_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(ids, (size_t)i);
        if (!json_is_integer(id)) {
            return err_set(ERR_FORMAT, "hash_ids[%lld] is no whole number", (long long)i);
        }
        t->blocks[at + i] = json_integer_value(id);
    }
    t->block_at[t->n + 1] = at + n;
    return 0;
}

static int add_row(struct trace *t, const struct row *r, int64_t *first_ns) {
    int rc = reserve_requests(t);
    if (rc) {
        return rc;
    }
    if (t->n == 0) {
        *first_ns = r->t_ns;
    }
    int64_t start = 0;
    if (__builtin_sub_overflow(r->t_ns, *first_ns, &start) ||
        start < (t->n > 0 ? t->start_ns[t->n - 1] : 0)) {
        return err_set(ERR_FORMAT, "its time is before that of the row above");
    }
    rc = add_blocks(t, r->blocks);
    if (rc) {
        return rc;
    }
    t->start_ns[t->n] = start;
    t->n_prompt[t->n] = r->n_prompt;
    t->n_output[t->n] = r->n_output;
    t->n++;
    return 0;
}

/* Days since 1970-01-01 of a proleptic Gregorian date. */
static int64_t civil_days(int64_t y, int64_t m, int64_t d) {
    y -= m <= 2 ? 1 : 0;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t yoe = y - era * 400;
    int64_t doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    int64_t doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    return era * 146097 + doe - 719468;
}

/* n decimal digits at s; -1 when one is none. */
static int64_t digits(const char *s, int32_t n) {
    int64_t v = 0;
    for (int32_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9') {
            return -1;
        }
        v = v * 10 + (s[i] - '0');
    }
    return v;
}

/* "2023-11-16 18:15:46.6805900" */
static int parse_stamp(const char *s, int64_t *t_ns) {
    static const char form[] = "dddd-dd-dd dd:dd:dd";
    for (int32_t i = 0; i < STAMP_LEN; i++) {
        bool ok = form[i] == 'd' ? s[i] >= '0' && s[i] <= '9' : s[i] == form[i];
        if (!ok) {
            return err_set(ERR_FORMAT, "time \"%s\", want 2023-11-16 18:15:46.6805900", s);
        }
    }
    int64_t ns = 0;
    int64_t unit = 100000000;
    const char *c = s + STAMP_LEN;
    if (*c == '.') {
        for (c++; *c >= '0' && *c <= '9'; c++) {
            ns += (*c - '0') * unit;
            unit /= 10;
        }
    }
    if (*c) {
        return err_set(ERR_FORMAT, "time \"%s\" ends in \"%s\"", s, c);
    }
    int64_t days = civil_days(digits(s, 4), digits(s + 5, 2), digits(s + 8, 2));
    int64_t sec =
        days * 86400 + digits(s + 11, 2) * 3600 + digits(s + 14, 2) * 60 + digits(s + 17, 2);
    *t_ns = sec * 1000000000 + ns;
    return 0;
}

static int parse_csv_row(const char *s, int64_t n, struct row *r) {
    char text[ROW_MAX];
    int64_t prompt = 0;
    int64_t output = 0;
    if (n >= ROW_MAX) {
        return err_set(ERR_FORMAT, "a row of %lld bytes", (long long)n);
    }
    memcpy(text, s, (size_t)n);
    text[n] = '\0';
    char *second = strchr(text, ',');
    char *third = second ? strchr(second + 1, ',') : NULL;
    if (!third) {
        return err_set(ERR_FORMAT, "\"%s\", want time,prompt tokens,output tokens", text);
    }
    *second++ = '\0';
    *third++ = '\0';
    int rc = parse_stamp(text, &r->t_ns);
    rc = rc ? rc : str_i64(second, 0, TRACE_TOKENS_MAX, &prompt);
    rc = rc ? rc : str_i64(third, 0, TRACE_TOKENS_MAX, &output);
    r->n_prompt = (int32_t)prompt;
    r->n_output = (int32_t)output;
    return rc;
}

static int parse_json_row(const json_t *j, struct row *r) {
    double ms = -1;
    int rc = json_opt_f64(j, "trace", "timestamp", &ms);
    rc = rc ? rc : json_need_i32(j, "trace", "input_length", 0, TRACE_TOKENS_MAX, &r->n_prompt);
    rc = rc ? rc : json_need_i32(j, "trace", "output_length", 0, TRACE_TOKENS_MAX, &r->n_output);
    if (!rc && !(ms >= 0 && ms <= 1e12)) {
        rc = err_set(ERR_FORMAT, "\"timestamp\" %.6g, want milliseconds from 0 to 1e12", ms);
    }
    r->blocks = json_object_get(j, "hash_ids");
    if (!rc && r->blocks && !json_is_array(r->blocks)) {
        rc = err_set(ERR_FORMAT, "\"hash_ids\" is no array");
    }
    r->t_ns = rc ? 0 : (int64_t)(ms * NS_PER_MS);
    return rc;
}

static int parse_line(struct trace *t, const char *s, int64_t n, bool is_json, int64_t *first_ns) {
    struct row r = {0};
    json_t *j = NULL;
    int rc = is_json ? json_parse("trace", s, n, &j) : parse_csv_row(s, n, &r);
    if (!rc && is_json) {
        rc = parse_json_row(j, &r);
    }
    rc = rc ? rc : add_row(t, &r, first_ns);
    json_decref(j);
    return rc;
}

int trace_parse(const char *where, const char *text, int64_t n, struct trace *out) {
    static const char header[] = "TIMESTAMP,ContextTokens,GeneratedTokens";
    const int64_t n_header = (int64_t)sizeof header - 1;
    const bool is_json = n > 0 && text[0] == '{';
    struct trace t = {0};
    int64_t first_ns = 0;
    int64_t line = 0;
    int rc = 0;
    if (!is_json && (n < n_header || memcmp(text, header, (size_t)n_header) != 0)) {
        return err_set(ERR_FORMAT, "%s:1: want the header %s, or JSON lines", where, header);
    }
    for (int64_t at = 0; !rc && at < n;) {
        const char *end = memchr(text + at, '\n', (size_t)(n - at));
        int64_t len = end ? end - (text + at) : n - at;
        int64_t body = len > 0 && text[at + len - 1] == '\r' ? len - 1 : len;
        line++;
        if (body > 0 && (is_json || line > 1)) {
            rc = parse_line(&t, text + at, body, is_json, &first_ns);
        }
        at += len + 1;
    }
    if (!rc && t.n == 0) {
        rc = err_set(ERR_FORMAT, "no request in it");
    }
    if (rc) {
        trace_fini(&t);
        return err_ctx(rc, "%s:%lld", where, (long long)line);
    }
    *out = t;
    return 0;
}

int trace_read(const char *path, struct trace *out) {
    struct buf b;
    buf_init(&b, MEM_DATA, TRACE_BYTES_MAX);
    int rc = file_read(path, &b);
    rc = rc ? rc : trace_parse(path, buf_cstr(&b), b.len, out);
    buf_fini(&b);
    return rc;
}
