/* Well-known patterns, scanned by hand: the same cuts as their regular expressions, several times
 * as fast, and linear for every text.
 *
 *     GPT2    's|'t|'re|'ve|'m|'ll|'d| ?L+| ?N+| ?[^\s L N]+|\s+(?!\S)|\s+
 *     QWEN2   (?i:the same)|[^\r\n L N]?L+|N| ?[^\s L N]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 *     LLAMA3  as QWEN2, with N{1,3}
 *     GROUPS  \d{1,3}(?=(?:\d{3})*\b)    1234567 -> 1 234 567, unless a word goes on behind
 *
 * with L for \p{L}, N for \p{N}. In the first three every character falls into a match, so a text
 * is cut without gaps. A run of blanks is looked through at most three times: up to its last line
 * end, up to its last character, the rest.
 *
 * A character has one of five classes; those of the lowest 65,536 are in a table of the tokenizer.
 * why: (?i:'s) also takes U+017F, the long s, whose upper case is S.
 * src: openai/tiktoken, tiktoken_ext/openai_public.py; Qwen and Llama 3, tokenizer.json */
#include <string.h>

#include "engine/base/err.h"
#include "engine/text/tok_int.h"
#include "engine/text/utf8.h"

enum { OTHER, LETTER, NUMBER, BLANK, LINE };

enum { TABLE = 1 << 16 };

static const struct {
    enum tok_scan_kind kind;
    const char *pattern;
} known[] = {
    {TOK_SCAN_GPT2, TOK_PAT_GPT2},
    {TOK_SCAN_GPT2,
     "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
    {TOK_SCAN_QWEN2, TOK_PAT_QWEN2},
    {TOK_SCAN_LLAMA3, TOK_PAT_LLAMA3},
    {TOK_SCAN_LINE_END, "\\s+$"},
    {TOK_SCAN_GROUPS, TOK_PAT_GROUPS},
};

enum tok_scan_kind tok_scan_known(struct tok_str pattern) {
    for (int32_t i = 0; i < ARRAY_LEN(known); i++) {
        const char *p = known[i].pattern;
        if (strlen(p) == (size_t)pattern.n && memcmp(p, pattern.p, (size_t)pattern.n) == 0) {
            return known[i].kind;
        }
    }
    return TOK_SCAN_NONE;
}

static uint8_t class_of(uint32_t cp) {
    if (cp == '\r' || cp == '\n') {
        return LINE;
    }
    if (utf8_is_space(cp)) {
        return BLANK;
    }
    return utf8_is_letter(cp) ? LETTER : utf8_is_number(cp) ? NUMBER : OTHER;
}

int tok_scan_init(struct tok *tok) {
    if (tok->class) {
        return 0;
    }
    tok->class = mem_calloc(MEM_TEXT, TABLE);
    if (!tok->class) {
        return ERR_NOMEM;
    }
    for (uint32_t cp = 0; cp < TABLE; cp++) {
        tok->class[cp] = class_of(cp);
    }
    return 0;
}

/* A text and where it ends. */
struct scan {
    const uint8_t *class;
    const uint8_t *p;
    int64_t n;
};

/* Class of the character at i < n. out: its length */
static inline uint8_t at(const struct scan *s, int64_t i, int32_t *len) {
    uint8_t b = s->p[i];
    if (b < 0x80) {
        *len = 1;
        return s->class[b];
    }
    uint32_t cp;
    *len = utf8_get(s->p + i, &cp);
    return cp < TABLE ? s->class[cp] : class_of(cp);
}

/* End of the run of characters of one class at i. */
static int64_t run(const struct scan *s, int64_t i, uint8_t class) {
    while (i < s->n) {
        int32_t len;
        if (at(s, i, &len) != class) {
            break;
        }
        i += len;
    }
    return i;
}

/* End of the run of \s at i. out: start of its last character, end of its last \r or \n (or -1) */
static int64_t blanks(const struct scan *s, int64_t i, int64_t *last, int64_t *line) {
    *line = -1;
    *last = i;
    while (i < s->n) {
        int32_t len;
        uint8_t c = at(s, i, &len);
        if (c < BLANK) {
            break;
        }
        *last = i;
        i += len;
        *line = c == LINE ? i : *line;
    }
    return i;
}

/* \s+(?!\S)|\s+ for the run from i to end. */
static int64_t blank_end(const struct scan *s, int64_t i, int64_t last, int64_t end) {
    return end == s->n || last == i ? end : last;
}

/* Length of 's 't 're 've 'm 'll 'd at i, 0 for none. */
static int32_t ending(const struct scan *s, int64_t i, bool any_case) {
    const uint8_t *p = s->p + i;
    int64_t left = s->n - i;
    uint8_t fold = any_case ? 0x20 : 0;
    if (left < 2 || p[0] != '\'') {
        return 0;
    }
    uint8_t a = p[1] | fold;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') {
        return 2;
    }
    if (left < 3) {
        return 0;
    }
    if (any_case && p[1] == 0xc5 && p[2] == 0xbf) {
        return 3;
    }
    uint8_t b = p[2] | fold;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

static int64_t gpt2(const struct scan *s, int64_t i) {
    int32_t len;
    int32_t k = ending(s, i, false);
    if (k > 0) {
        return i + k;
    }
    uint8_t c = at(s, i, &len);
    if (s->p[i] == ' ' && i + 1 < s->n) {
        int32_t more;
        c = at(s, i + 1, &more);
        len = c < BLANK ? 1 + more : 1;
    }
    if (c < BLANK) {
        return run(s, i + len, c);
    }
    int64_t last;
    int64_t line;
    int64_t end = blanks(s, i, &last, &line);
    return blank_end(s, i, last, end);
}

static int64_t numbers(const struct scan *s, int64_t i, int32_t most) {
    for (int32_t k = 0; k < most && i < s->n; k++) {
        int32_t len;
        if (at(s, i, &len) != NUMBER) {
            break;
        }
        i += len;
    }
    return i;
}

static int64_t signs(const struct scan *s, int64_t i) {
    i = run(s, i, OTHER);
    while (i < s->n && (s->p[i] == '\r' || s->p[i] == '\n')) {
        i++;
    }
    return i;
}

static int64_t qwen2(const struct scan *s, int64_t i, int32_t most) {
    int32_t len;
    int32_t next_len;
    int32_t k = ending(s, i, true);
    if (k > 0) {
        return i + k;
    }
    uint8_t c = at(s, i, &len);
    if (c == LETTER) {
        return run(s, i + len, LETTER);
    }
    if (c == NUMBER) {
        return numbers(s, i, most);
    }
    uint8_t next = i + len < s->n ? at(s, i + len, &next_len) : BLANK;
    if (c != LINE && next == LETTER) {
        return run(s, i + len + next_len, LETTER);
    }
    if (c == OTHER) {
        return signs(s, i + len);
    }
    if (s->p[i] == ' ' && next == OTHER) {
        return signs(s, i + 1 + next_len);
    }
    int64_t last;
    int64_t line;
    int64_t end = blanks(s, i, &last, &line);
    return line >= 0 ? line : blank_end(s, i, last, end);
}

int64_t tok_scan_next(
    const uint8_t *class, enum tok_scan_kind kind, const uint8_t *p, int64_t n, int64_t i) {
    struct scan s = {class, p, n};
    return kind == TOK_SCAN_GPT2 ? gpt2(&s, i) : qwen2(&s, i, kind == TOK_SCAN_LLAMA3 ? 3 : 1);
}

int64_t tok_scan_line_end(const uint8_t *p, int64_t n, int64_t i, int64_t *start) {
    while (i < n) {
        int64_t line = -1;
        int64_t k = i;
        uint32_t cp;
        int32_t len = utf8_get(p + i, &cp);
        if (!utf8_is_space(cp)) {
            i += len;
            continue;
        }
        while (k < n) {
            len = utf8_get(p + k, &cp);
            if (!utf8_is_space(cp)) {
                break;
            }
            line = cp == '\n' && k > i ? k : line;
            k += len;
        }
        if (k == n || line >= 0) {
            *start = i;
            return k == n ? n : line;
        }
        i = k;
    }
    *start = n;
    return n;
}

static bool is_digit(uint32_t cp) {
    return cp < 0x80 ? cp >= '0' && cp <= '9' : utf8_is_digit(cp);
}

/* why: a run is counted once; the pattern as it stands looks to its end from every digit */
int64_t tok_scan_digits(const uint8_t *p, int64_t n, int64_t i, int64_t *start, int64_t *count) {
    while (i < n) {
        uint32_t cp;
        int32_t len = utf8_get(p + i, &cp);
        *start = i;
        *count = 0;
        for (; i < n && is_digit(cp); ++*count) {
            i += len;
            len = i < n ? utf8_get(p + i, &cp) : 0;
        }
        if (*count > 0 && (i == n || !utf8_is_word(cp))) {
            return i;
        }
        i += len;
    }
    *start = n;
    return n;
}
