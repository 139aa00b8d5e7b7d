/* 1. re.match: an expression matches at the start of the name and need not reach its end.
 * 2. A name beats an expression, an expression beats a class.
 * 3. A match takes at most MATCH_STEPS_MAX steps: expressions are a stranger's.
 *
 * What Python's re and PCRE2 read differently (\Z before a newline at the end, \u escapes) does not
 * occur in names of modules. All memory of PCRE2 is mem_*. src: pcre2api(3), pcre2pattern(3) */
#include "engine/model/qrule.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"

enum { MATCH_STEPS_MAX = 1000000, RULES_FIRST = 8 };

enum rank { RANK_NAME, RANK_REGEX, RANK_CLASS, RANK_NONE };

struct rule {
    char *text;     /* own, without "re:" */
    pcre2_code *re; /* own; NULL: a name */
    int32_t value;
};

struct qrules {
    struct rule *item; /* own */
    int32_t n;
    int32_t cap;
    pcre2_general_context *gctx; /* own */
    pcre2_match_context *mctx;   /* own */
    pcre2_match_data *match;     /* own */
};

static void *take(PCRE2_SIZE n, void *ctx) {
    (void)ctx;
    return mem_calloc(MEM_MODEL, (int64_t)n);
}

static void give(void *p, void *ctx) {
    (void)ctx;
    mem_free(p);
}

int qrules_create(struct qrules **out) {
    struct qrules *r = mem_calloc(MEM_MODEL, (int64_t)sizeof *r);
    if (!r) {
        return ERR_NOMEM;
    }
    r->gctx = pcre2_general_context_create(take, give, NULL);
    r->mctx = r->gctx ? pcre2_match_context_create(r->gctx) : NULL;
    r->match = r->gctx ? pcre2_match_data_create(1, r->gctx) : NULL;
    if (!r->mctx || !r->match) {
        qrules_free(r);
        return err_set(ERR_NOMEM, "no memory for rules of module names");
    }
    pcre2_set_match_limit(r->mctx, MATCH_STEPS_MAX);
    *out = r;
    return 0;
}

void qrules_free(struct qrules *r) {
    if (!r) {
        return;
    }
    for (int32_t i = 0; i < r->n; i++) {
        pcre2_code_free(r->item[i].re);
        mem_free(r->item[i].text);
    }
    pcre2_match_data_free(r->match);
    pcre2_match_context_free(r->mctx);
    pcre2_general_context_free(r->gctx);
    mem_free(r->item);
    mem_free(r);
}

int32_t qrules_n(const struct qrules *r) {
    return r ? r->n : 0;
}

static int compile(struct qrules *r, const char *where, const char *text, pcre2_code **out) {
    int code = 0;
    PCRE2_SIZE at = 0;
    pcre2_compile_context *cc = pcre2_compile_context_create(r->gctx);
    if (!cc) {
        return err_set(ERR_NOMEM, "%s: no memory for the expression \"%s\"", where, text);
    }
    *out = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED,
                         PCRE2_ANCHORED | PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &code, &at, cc);
    pcre2_compile_context_free(cc);
    if (*out) {
        return 0;
    }
    char msg[128] = "";
    pcre2_get_error_message(code, (PCRE2_UCHAR *)msg, sizeof msg);
    return err_set(code == PCRE2_ERROR_HEAP_FAILED ? ERR_NOMEM : ERR_FORMAT,
                   "%s: regular expression \"%s\": %s at byte %zu", where, text, msg, (size_t)at);
}

static int grow(struct qrules *r) {
    if (r->n < r->cap) {
        return 0;
    }
    int32_t cap = i32_max(RULES_FIRST, 2 * r->cap);
    struct rule *p = mem_realloc(MEM_MODEL, r->item, cap * (int64_t)sizeof *p);
    if (!p) {
        return ERR_NOMEM;
    }
    r->item = p;
    r->cap = cap;
    return 0;
}

static int
add(struct qrules *r, const char *where, const char *text, bool is_regex, int32_t value) {
    if (r->n == QRULES_MAX || strlen(text) > QRULE_TEXT_MAX) {
        return err_set(ERR_LIMIT, "%s: more than %d names, or one longer than %d bytes", where,
                       (int)QRULES_MAX, (int)QRULE_TEXT_MAX);
    }
    int rc = grow(r);
    if (rc) {
        return rc;
    }
    struct rule one = {.value = value};
    if (is_regex) {
        rc = compile(r, where, text, &one.re);
    }
    one.text = rc ? NULL : mem_strdup(MEM_MODEL, text, -1);
    if (!one.text) {
        pcre2_code_free(one.re);
        return rc ? rc : ERR_NOMEM;
    }
    r->item[r->n++] = one;
    return 0;
}

int qrules_add(struct qrules *r, const char *where, const char *text, int32_t value) {
    bool is_regex = str_starts(text, "re:");
    return add(r, where, text + (is_regex ? 3 : 0), is_regex, value);
}

int qrules_add_regex(struct qrules *r, const char *where, const char *regex, int32_t value) {
    return add(r, where, regex, true, value);
}

static int matches(struct qrules *r, const struct rule *one, const char *module, bool *hit) {
    int rc =
        pcre2_match(one->re, (PCRE2_SPTR)module, PCRE2_ZERO_TERMINATED, 0, 0, r->match, r->mctx);
    if (rc < 0 && rc != PCRE2_ERROR_NOMATCH) {
        return err_set(rc == PCRE2_ERROR_NOMEMORY ? ERR_NOMEM : ERR_LIMIT,
                       "regular expression \"%s\" cannot be matched with \"%s\": PCRE2 error %d",
                       one->text, module, rc);
    }
    *hit = rc >= 0;
    return 0;
}

int qrules_find(struct qrules *r, const char *module, const char *cls, int32_t *value) {
    const struct rule *best = NULL;
    enum rank best_rank = RANK_NONE;
    for (int32_t i = 0; i < qrules_n(r); i++) {
        const struct rule *one = &r->item[i];
        enum rank rank = RANK_REGEX;
        bool hit = false;
        if (!one->re) {
            rank = str_eq(one->text, module) ? RANK_NAME : RANK_CLASS;
            hit = rank == RANK_NAME || str_eq(one->text, cls);
        } else if (best_rank >= RANK_REGEX) {
            int rc = matches(r, one, module, &hit);
            if (rc) {
                return rc;
            }
        }
        if (hit &&
            (rank < best_rank || (rank == best_rank && strcmp(one->text, best->text) <= 0))) {
            best = one;
            best_rank = rank;
        }
    }
    *value = best ? best->value : -1;
    return 0;
}

int qrules_first(struct qrules *r, const char *module, int32_t *value) {
    *value = -1;
    for (int32_t i = 0; i < qrules_n(r) && *value < 0; i++) {
        bool hit = false;
        int rc = r->item[i].re ? matches(r, &r->item[i], module, &hit) : 0;
        if (rc) {
            return rc;
        }
        *value = hit ? r->item[i].value : -1;
    }
    return 0;
}
