/* Patterns of tokenizer.json by PCRE2.
 *
 * They are written for Oniguruma (Ruby syntax); translate() changes what PCRE2 reads otherwise and
 * refuses what it cannot say: ^ and $ match at lines (PCRE2_MULTILINE), \s is White_Space without
 * U+180E, \w takes marks and no other numbers, nested classes and repeated intervals are refused.
 *
 * Matches follow each other as in Oniguruma's iterator: a search goes on at the end of the last
 * match, and an empty match right there is passed over by one character.
 *
 * A pattern runs as machine code; where that runs out of stack (groups repeated very often), the
 * interpreter takes over with a heap of HEAP_KIB_MAX. src: Oniguruma doc/RE; pcre2pattern(3);
 * rust-onig, find.rs FindMatches */
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

int tok_regex_compile(const struct tok *tok, struct tok_str pat, pcre2_code **out) {
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

void tok_regex_start(struct tok_finder *f, const pcre2_code *re, const uint8_t *p, int64_t n) {
    size_t size = 0;
    (void)pcre2_pattern_info(re, PCRE2_INFO_JITSIZE, &size);
    *f = (struct tok_finder){.re = re, .jit = size > 0, .p = p, .n = n, .last_end = -1};
}

static int match(struct tok_work *w, struct tok_finder *f) {
    int m = PCRE2_ERROR_JIT_STACKLIMIT;
    if (f->jit) {
        m = pcre2_jit_match(f->re, f->p, (PCRE2_SIZE)f->n, (PCRE2_SIZE)f->from, PCRE2_NO_UTF_CHECK,
                            w->match, w->mctx);
    }
    if (m == PCRE2_ERROR_JIT_STACKLIMIT) {
        m = pcre2_match(f->re, f->p, (PCRE2_SIZE)f->n, (PCRE2_SIZE)f->from,
                        PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, w->match, w->mctx);
    }
    return m;
}

int tok_regex_next(struct tok_work *w, struct tok_finder *f, bool *found) {
    const PCRE2_SIZE *ov = pcre2_get_ovector_pointer(w->match);
    *found = false;
    while (f->from <= f->n) {
        int m = match(w, f);
        if (m == PCRE2_ERROR_NOMATCH) {
            return 0;
        }
        if (m < 0) {
            char msg[128];
            pcre2_get_error_message(m, (PCRE2_UCHAR *)msg, sizeof msg);
            return err_set(m == PCRE2_ERROR_NOMEMORY ? ERR_NOMEM : ERR_LIMIT,
                           "%s: pattern at byte %lld of %lld: %s", w->tok->cfg.where,
                           (long long)f->from, (long long)f->n, msg);
        }
        f->start = (int64_t)ov[0];
        f->end = i64_max((int64_t)ov[1], f->start);
        if (f->end > f->start || f->end != f->last_end) {
            f->from = f->end;
            f->last_end = f->end;
            *found = true;
            return 0;
        }
        uint32_t cp;
        f->from = f->from < f->n ? f->from + utf8_get(f->p + f->from, &cp) : f->n + 1;
    }
    return 0;
}

int tok_regex_replace(struct tok_work *w,
                      const pcre2_code *re,
                      const uint8_t *p,
                      int64_t n,
                      struct tok_str to,
                      struct buf *out) {
    struct tok_finder f;
    int64_t done = 0;
    bool found = true;
    tok_regex_start(&f, re, p, n);
    int rc = n > 0 ? tok_regex_next(w, &f, &found) : 0;
    while (!rc && n > 0 && found) {
        rc = buf_add(out, p + done, f.start - done);
        rc = rc ? rc : buf_add(out, to.p, to.n);
        done = f.end;
        rc = rc ? rc : tok_regex_next(w, &f, &found);
    }
    return rc ? rc : buf_add(out, p + done, n - done);
}
