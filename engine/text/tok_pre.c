/* The pre-tokenizer: cuts a text into the pieces that are merged on their own.
 *
 * Steps work one behind the other; each cuts every piece of the step before, seeing nothing beyond
 * the piece. Pieces are handed on as soon as they are known (a recursion as deep as the list of
 * steps, at most TOK_STEPS_MAX), so nothing is stored:
 *
 *     "I'm 42"  --numbers isolated-->  "I'm " "4" "2"  --GPT-2 regex-->  "I" "'m" " " "4" "2"
 *
 * What becomes of matches (M) and the text between (t), e.g. t M M t:
 *
 *     isolated t|M|M|t   removed t|t   merged with previous tM|M|t   with next t|M|Mt
 *     contiguous t|MM|t
 *
 * Patterns are written for Oniguruma (Ruby syntax); translate() changes what PCRE2 reads otherwise
 * and refuses what it cannot say: ^ and $ match at lines (PCRE2_MULTILINE), \s is White_Space
 * without U+180E, \w takes marks and no other numbers, nested classes and repeated intervals are
 * refused. src: tokenizers, tokenizer/normalizer.rs split, pre_tokenizers; Oniguruma doc/RE;
 * pcre2pattern(3)
 */
#include <string.h>

#include "engine/base/err.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

#define WHITE_SPACE                                                                                \
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{"   \
    "3000}"

#define WORD "\\p{L}\\p{M}\\p{Nd}\\p{Pc}"

static int refuse(const char *where, struct tok_str pat, const char *what) {
    return err_set(ERR_UNSUPPORTED, "%s: pattern \"%.*s\": %s", where, pat.n, pat.p, what);
}

/* Copies the escape at p[i]; out: its length in *len. */
static int escape(struct tok_str pat, int32_t i, bool in_class, struct buf *out, int32_t *len) {
    const char *p = pat.p + i;
    int32_t left = pat.n - i;
    *len = left < 2 ? left : 2;
    if (left >= 2 && p[1] == 's') {
        return buf_str(out, in_class ? WHITE_SPACE : "[" WHITE_SPACE "]");
    }
    if (left >= 2 && p[1] == 'S' && !in_class) {
        return buf_str(out, "[^" WHITE_SPACE "]");
    }
    if (left >= 2 && p[1] == 'w') {
        return buf_str(out, in_class ? WORD : "[" WORD "]");
    }
    if (left >= 2 && p[1] == 'W' && !in_class) {
        return buf_str(out, "[^" WORD "]");
    }
    if (left >= 2 && p[1] == 'h') {
        return buf_str(out, in_class ? "0-9a-fA-F" : "[0-9a-fA-F]");
    }
    if (left >= 3 && strchr("pPx", p[1]) && p[2] == '{') {
        const char *end = memchr(p, '}', (size_t)left);
        *len = end ? (int32_t)(end - p) + 1 : left;
    }
    return buf_add(out, p, *len);
}

static bool interval_plus(struct tok_str pat, int32_t i) {
    while (i < pat.n && strchr("{,0123456789", pat.p[i]) && pat.p[i] != '\0') {
        i++;
    }
    return i + 1 < pat.n && pat.p[i] == '}' && pat.p[i + 1] == '+';
}

static int translate(const char *where, struct tok_str pat, struct buf *out) {
    int32_t class_at = -1; /* first place inside of a class, -1 outside */
    for (int32_t i = 0; i < pat.n;) {
        char c = pat.p[i];
        bool in = class_at >= 0;
        int32_t len = 1;
        int rc;
        if (c == '\\') {
            rc = escape(pat, i, in, out, &len);
        } else if (in && c == '[' && !(i + 1 < pat.n && pat.p[i + 1] == ':')) {
            return refuse(where, pat, "a class inside of a class");
        } else if (in && c == '&' && i + 1 < pat.n && pat.p[i + 1] == '&') {
            return refuse(where, pat, "an intersection of classes");
        } else if (!in && c == '{' && interval_plus(pat, i)) {
            return refuse(where, pat, "an interval followed by +");
        } else {
            rc = buf_add(out, &c, 1);
            if (!in && c == '[') {
                class_at = i + 1 + (i + 1 < pat.n && pat.p[i + 1] == '^');
            } else if (in && c == ']' && i > class_at) {
                class_at = -1;
            }
        }
        if (rc) {
            return rc;
        }
        i += len;
    }
    return 0;
}

static int compile(struct tok *tok, struct tok_str pat, pcre2_code **out) {
    struct buf b;
    buf_init(&b, MEM_TEXT, TOK_TOKEN_MAX);
    pcre2_compile_context *cc = pcre2_compile_context_create(tok->gctx);
    int rc = cc ? translate(tok->cfg.where, pat, &b) : ERR_NOMEM;
    if (!rc) {
        int code = 0;
        PCRE2_SIZE at = 0;
        pcre2_set_newline(cc, PCRE2_NEWLINE_LF);
        *out = pcre2_compile((PCRE2_SPTR)buf_cstr(&b), (PCRE2_SIZE)b.len,
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                             &code, &at, cc);
        if (!*out) {
            char msg[128];
            pcre2_get_error_message(code, (PCRE2_UCHAR *)msg, sizeof msg);
            rc = code == PCRE2_ERROR_HEAP_FAILED
                     ? err_set(ERR_NOMEM, "pattern: %s", msg)
                     : err_set(ERR_FORMAT, "%s: pattern \"%.*s\": %s near byte %lld",
                               tok->cfg.where, pat.n, pat.p, msg, (long long)at);
        } else {
            /* why: where there is no JIT, pcre2_match interprets: slower, same result */
            (void)pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE);
        }
    }
    pcre2_compile_context_free(cc);
    buf_fini(&b);
    return rc;
}

int tok_pre_compile(struct tok *tok) {
    for (int32_t i = 0; i < tok->cfg.n_steps; i++) {
        const struct tok_step *s = &tok->cfg.step[i];
        if (s->kind == TOK_STEP_REGEX) {
            int rc = compile(tok, s->pattern, &tok->regex[i]);
            if (rc) {
                return rc;
            }
        } else if (s->kind == TOK_STEP_STRING &&
                   (s->pattern.n == 0 ||
                    utf8_valid((const uint8_t *)s->pattern.p, s->pattern.n) != s->pattern.n)) {
            return err_set(ERR_FORMAT, "%s: step %d splits at a text that is empty or no UTF-8",
                           tok->cfg.where, i);
        }
    }
    return 0;
}

void tok_pre_fini(struct tok *tok) {
    for (int32_t i = 0; i < TOK_STEPS_MAX; i++) {
        pcre2_code_free(tok->regex[i]);
    }
}

/* One step at work on one piece. */
struct cut {
    struct tok_work *w;
    int32_t k; /* step */
    enum tok_behavior behavior;
    bool invert;
    const uint8_t *p; /* the piece */
    bool first;       /* the piece begins the text */
    bool have;        /* a part is held back: */
    bool was_match;
    int64_t start;
    int64_t end;
};

static int run_from(struct tok_work *w, int32_t k, const uint8_t *p, int64_t n, bool first);

static int hand_on(struct cut *c, int64_t start, int64_t end) {
    if (start == end) {
        return 0;
    }
    return run_from(c->w, c->k + 1, c->p + start, end - start, c->first && start == 0);
}

static int flush(struct cut *c) {
    bool had = c->have;
    c->have = false;
    return had ? hand_on(c, c->start, c->end) : 0;
}

static int hold(struct cut *c, int64_t start, int64_t end) {
    int rc = flush(c);
    c->have = true;
    c->start = start;
    c->end = end;
    return rc;
}

static int part(struct cut *c, int64_t start, int64_t end, bool match) {
    int rc = 0;
    match = match != c->invert;
    switch (c->behavior) {
    case TOK_ISOLATED:
        return hand_on(c, start, end);
    case TOK_REMOVED:
        return match ? 0 : hand_on(c, start, end);
    case TOK_MERGED_WITH_PREVIOUS:
        if (match && !c->was_match && c->have) {
            c->end = end;
        } else {
            rc = hold(c, start, end);
        }
        break;
    case TOK_CONTIGUOUS:
        if (match == c->was_match && c->have) {
            c->end = end;
        } else {
            rc = hold(c, start, end);
        }
        break;
    case TOK_MERGED_WITH_NEXT:
        if (match) {
            rc = hold(c, start, end);
        } else if (c->have) {
            c->have = false;
            rc = hand_on(c, c->start, end);
        } else {
            rc = hand_on(c, start, end);
        }
        break;
    }
    c->was_match = match;
    return rc;
}

static int split_regex(struct cut *c, const uint8_t *p, int64_t n) {
    struct tok_work *w = c->w;
    const pcre2_code *re = w->tok->regex[c->k];
    const PCRE2_SIZE *ov = pcre2_get_ovector_pointer(w->match);
    int64_t done = 0;
    int64_t from = 0;
    int rc = 0;
    while (from <= n && !rc) {
        int m = pcre2_match(re, p, (PCRE2_SIZE)n, (PCRE2_SIZE)from, PCRE2_NO_UTF_CHECK, w->match,
                            w->mctx);
        if (m == PCRE2_ERROR_NOMATCH) {
            break;
        }
        if (m < 0) {
            char msg[128];
            pcre2_get_error_message(m, (PCRE2_UCHAR *)msg, sizeof msg);
            return err_set(m == PCRE2_ERROR_NOMEMORY ? ERR_NOMEM : ERR_LIMIT,
                           "%s: pattern of step %d: %s", w->tok->cfg.where, c->k, msg);
        }
        int64_t start = (int64_t)ov[0];
        int64_t end = (int64_t)ov[1];
        if (end <= start) { /* an empty match separates, and the search goes on behind it */
            end = start;
            uint32_t cp;
            from = start < n ? start + utf8_get(p + start, &cp) : n + 1;
        } else {
            from = end;
        }
        if (start > done) {
            rc = part(c, done, start, false);
        }
        if (!rc && (end > start || start > done)) {
            rc = part(c, start, end, true);
        }
        done = i64_max(done, end);
    }
    return rc || done >= n ? rc : part(c, done, n, false);
}

static int split_string(struct cut *c, const uint8_t *p, int64_t n, struct tok_str s) {
    int64_t done = 0;
    int rc = 0;
    while (done < n && !rc) {
        const uint8_t *hit = memmem(p + done, (size_t)(n - done), s.p, (size_t)s.n);
        int64_t at = hit ? hit - p : n;
        if (at > done) {
            rc = part(c, done, at, false);
        }
        if (hit && !rc) {
            rc = part(c, at, at + s.n, true);
        }
        done = hit ? at + s.n : n;
    }
    return rc;
}

static int split_class(struct cut *c, const uint8_t *p, int64_t n, bool (*is)(uint32_t)) {
    int64_t done = 0;
    int rc = 0;
    for (int64_t i = 0; i < n && !rc;) {
        uint32_t cp;
        int32_t k = utf8_get(p + i, &cp);
        if (is(cp)) {
            rc = i > done ? part(c, done, i, false) : 0;
            rc = rc ? rc : part(c, i, i + k, true);
            done = i + k;
        }
        i += k;
    }
    return rc || done == n ? rc : part(c, done, n, false);
}

/* A rewritten copy of the piece in the step's own buffer, then on. */
static int prefix_blank(struct tok_work *w, int32_t k, const uint8_t *p, int64_t n, bool first) {
    struct buf *b = &w->seg[k];
    buf_clear(b);
    int rc = buf_str(b, " ");
    if (!rc) {
        rc = buf_add(b, p, n);
    }
    return rc ? rc : run_from(w, k + 1, (const uint8_t *)b->data, b->len, first);
}

static int metaspace(struct tok_work *w, int32_t k, const uint8_t *p, int64_t n, bool first) {
    static const char mark[] = "\xe2\x96\x81";
    enum tok_prefix prefix = w->tok->cfg.step[k].prefix;
    bool has = p[0] == ' ' || (n >= 3 && memcmp(p, mark, 3) == 0);
    bool want = prefix == TOK_PREFIX_ALWAYS || (prefix == TOK_PREFIX_FIRST && first);
    struct buf *b = &w->seg[k];
    buf_clear(b);
    int rc = want && !has ? buf_add(b, mark, 3) : 0;
    for (int64_t i = 0; i < n && !rc;) {
        const uint8_t *blank = memchr(p + i, ' ', (size_t)(n - i));
        int64_t end = blank ? blank - p : n;
        rc = buf_add(b, p + i, end - i);
        if (blank && !rc) {
            rc = buf_add(b, mark, 3);
        }
        i = end + 1;
    }
    return rc ? rc : run_from(w, k + 1, (const uint8_t *)b->data, b->len, first);
}

static int run_from(struct tok_work *w, int32_t k, const uint8_t *p, int64_t n, bool first) {
    if (k == w->tok->cfg.n_steps) {
        return tok_bpe_piece(w, p, n);
    }
    const struct tok_step *s = &w->tok->cfg.step[k];
    struct cut c = {
        .w = w, .k = k, .behavior = s->behavior, .invert = s->invert, .p = p, .first = first};
    int rc = 0;
    switch (s->kind) {
    case TOK_STEP_REGEX:
        rc = split_regex(&c, p, n);
        break;
    case TOK_STEP_STRING:
        rc = split_string(&c, p, n, s->pattern);
        break;
    case TOK_STEP_NUMBERS:
        rc = split_class(&c, p, n, utf8_is_number);
        break;
    case TOK_STEP_SPACES:
        rc = split_class(&c, p, n, utf8_is_space);
        break;
    case TOK_STEP_PUNCT:
        rc = split_class(&c, p, n, utf8_is_punct);
        break;
    case TOK_STEP_BYTE_LEVEL:
        return s->prefix_space && p[0] != ' ' ? prefix_blank(w, k, p, n, first)
                                              : run_from(w, k + 1, p, n, first);
    case TOK_STEP_METASPACE:
        return metaspace(w, k, p, n, first);
    }
    return rc ? rc : flush(&c);
}

int tok_pre_run(struct tok_work *w, const uint8_t *p, int64_t n, bool first) {
    return n > 0 ? run_from(w, 0, p, n, first) : 0;
}
