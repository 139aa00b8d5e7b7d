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
 * Well-known patterns are scanned by hand (tok_scan.c), the others by PCRE2 (tok_regex.c).
 * src: tokenizers, tokenizer/normalizer.rs split, tokenizer/pattern.rs, pre_tokenizers/ */
#include <string.h>

#include "engine/base/err.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

static int compile_step(struct tok *tok, int32_t i) {
    const struct tok_step *s = &tok->cfg.step[i];
    if (s->kind == TOK_STEP_REGEX) {
        tok->scan[i] = (int32_t)tok_scan_known(s->pattern);
        return tok->scan[i] == TOK_SCAN_NONE ? tok_regex_compile(tok, s->pattern, &tok->regex[i])
                                             : tok_scan_init(tok);
    }
    bool text = s->kind == TOK_STEP_STRING || s->kind == TOK_STEP_METASPACE;
    if (text && (s->pattern.n == 0 ||
                 utf8_valid((const uint8_t *)s->pattern.p, s->pattern.n) != s->pattern.n)) {
        return err_set(ERR_FORMAT, "%s: step %d splits at a text that is empty or no UTF-8",
                       tok->cfg.where, i);
    }
    if (s->kind == TOK_STEP_LENGTH && s->length < 1) {
        return err_set(ERR_FORMAT, "%s: step %d cuts at every %d characters", tok->cfg.where, i,
                       s->length);
    }
    return 0;
}

int tok_pre_compile(struct tok *tok) {
    int rc = 0;
    for (int32_t i = 0; i < tok->cfg.n_steps && !rc; i++) {
        rc = compile_step(tok, i);
    }
    return rc;
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

/* Every match, and what is between. */
static int split_regex(struct cut *c, const uint8_t *p, int64_t n) {
    struct tok_finder f;
    int64_t done = 0;
    bool found = true;
    tok_regex_start(&f, c->w->tok->regex[c->k], p, n);
    int rc = 0;
    for (;;) {
        rc = rc ? rc : tok_regex_next(c->w, &f, &found);
        if (rc || !found) {
            break;
        }
        int64_t start = f.start;
        int64_t end = f.end;
        rc = start > done ? part(c, done, start, false) : 0;
        rc = rc ? rc : part(c, start, end, true);
        done = end;
    }
    return rc || done >= n ? rc : part(c, done, n, false);
}

static int split_lines(struct cut *c, const uint8_t *p, int64_t n) {
    int64_t done = 0;
    int rc = 0;
    while (done < n && !rc) {
        int64_t start;
        int64_t end = tok_scan_line_end(p, n, done, &start);
        rc = start > done ? part(c, done, start, false) : 0;
        rc = rc || end == start ? rc : part(c, start, end, true);
        done = end;
    }
    return rc;
}

/* Digits in threes from the right, with what is left over in front. */
static int split_groups(struct cut *c, const uint8_t *p, int64_t n) {
    int64_t done = 0;
    int rc = 0;
    while (done < n && !rc) {
        int64_t start;
        int64_t count;
        int64_t end = tok_scan_digits(p, n, done, &start, &count);
        rc = start > done ? part(c, done, start, false) : 0;
        for (int64_t i = start; i < end && !rc;) {
            int64_t from = i;
            uint32_t cp;
            do {
                i += utf8_get(p + i, &cp);
            } while (--count % 3 != 0);
            rc = part(c, from, i, true);
        }
        done = end;
    }
    return rc;
}

static int split_scan(struct cut *c, const uint8_t *p, int64_t n) {
    const struct tok *t = c->w->tok;
    enum tok_scan_kind kind = (enum tok_scan_kind)t->scan[c->k];
    int rc = 0;
    if (kind == TOK_SCAN_NONE) {
        return split_regex(c, p, n);
    }
    if (kind == TOK_SCAN_LINE_END) {
        return split_lines(c, p, n);
    }
    if (kind == TOK_SCAN_GROUPS) {
        return split_groups(c, p, n);
    }
    for (int64_t i = 0; i < n && !rc;) {
        int64_t end = tok_scan_next(t->class, kind, p, n, i);
        rc = part(c, i, end, true);
        i = end;
    }
    return rc;
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

/* Blanks become the mark, which may also stand in front. */
static int metaspace(struct tok_work *w, int32_t k, const uint8_t *p, int64_t n, bool first) {
    const struct tok_step *s = &w->tok->cfg.step[k];
    struct tok_str mark = s->pattern;
    bool has = p[0] == ' ' || (n >= mark.n && memcmp(p, mark.p, (size_t)mark.n) == 0);
    bool want = s->prefix == TOK_PREFIX_ALWAYS || (s->prefix == TOK_PREFIX_FIRST && first);
    struct buf *b = &w->seg[k];
    buf_clear(b);
    int rc = want && !has ? buf_add(b, mark.p, mark.n) : 0;
    for (int64_t i = 0; i < n && !rc;) {
        const uint8_t *blank = memchr(p + i, ' ', (size_t)(n - i));
        int64_t end = blank ? blank - p : n;
        rc = buf_add(b, p + i, end - i);
        if (blank && !rc) {
            rc = buf_add(b, mark.p, mark.n);
        }
        i = end + 1;
    }
    return rc ? rc : run_from(w, k + 1, (const uint8_t *)b->data, b->len, first);
}

static int letters(struct tok_work *w, int32_t k, const uint8_t *p, int64_t n, bool first) {
    struct buf *b = &w->seg[k];
    buf_clear(b);
    int rc = tok_alpha_text(p, n, b);
    return rc ? rc : run_from(w, k + 1, (const uint8_t *)b->data, b->len, first);
}

/* Characters without a script go with what is before them; at the very front they are lost, as in
 * tokenizers. */
static int split_scripts(struct cut *c, const uint8_t *p, int64_t n) {
    int64_t start = n;
    uint8_t last = 0;
    int rc = 0;
    for (int64_t i = 0; i < n && !rc;) {
        uint32_t cp;
        int32_t k = utf8_get(p + i, &cp);
        uint8_t script = tok_script(cp);
        if (script != 0 && script != last) {
            rc = last != 0 ? hand_on(c, start, i) : 0;
            start = i;
            last = script;
        }
        i += k;
    }
    return rc ? rc : hand_on(c, start, n);
}

static int split_length(struct cut *c, const uint8_t *p, int64_t n, int32_t length) {
    int rc = 0;
    for (int64_t i = 0; i < n && !rc;) {
        int64_t start = i;
        uint32_t cp;
        for (int32_t k = 0; k < length && i < n; k++) {
            i += utf8_get(p + i, &cp);
        }
        rc = hand_on(c, start, i);
    }
    return rc;
}

static int run_from(struct tok_work *w, int32_t k, const uint8_t *p, int64_t n, bool first) {
    if (k == w->tok->cfg.n_steps) {
        return tok_piece_run(w, p, n);
    }
    const struct tok_step *s = &w->tok->cfg.step[k];
    struct cut c = {
        .w = w, .k = k, .behavior = s->behavior, .invert = s->invert, .p = p, .first = first};
    int rc = 0;
    switch (s->kind) {
    case TOK_STEP_REGEX:
        rc = split_scan(&c, p, n);
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
    case TOK_STEP_LETTERS:
        return letters(w, k, p, n, first);
    case TOK_STEP_SCRIPTS:
        return split_scripts(&c, p, n);
    case TOK_STEP_LENGTH:
        return split_length(&c, p, n, s->length);
    }
    return rc ? rc : flush(&c);
}

int tok_pre_run(struct tok_work *w, const uint8_t *p, int64_t n, bool first) {
    return n > 0 ? run_from(w, 0, p, n, first) : 0;
}
