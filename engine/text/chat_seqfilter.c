/* Filters on sequences. What is a generator in jinja2 is one here: always true, without a length,
 * and walked once.
 *
 * src: jinja2 3.1, filters.py */
#include <string.h>

#include "engine/text/chat_int.h"
#include "engine/text/utf8.h"

enum { BATCH_MAX = 1 << 20 };

/* Item's member by a path "a.b.0", by a number, or the item itself when there is no path. */
static int by_path(struct rt *r, struct val item, const struct val *path, struct val *out) {
    int rc = 0;
    *out = item;
    if (path->type == V_MISSING || path->type == V_NONE) {
        return 0;
    }
    if (path->type != V_STR) {
        return eval_getitem(r, &item, path, out);
    }
    struct chat_str s = path->u.s;
    while (!rc) {
        const char *dot = s.n > 0 ? memchr(s.p, '.', (size_t)s.n) : NULL;
        int64_t n = dot ? dot - s.p : s.n;
        bool digits = n > 0 && n < 10;
        int64_t index = 0;
        for (int64_t i = 0; i < n && digits; i++) {
            digits = s.p[i] >= '0' && s.p[i] <= '9';
            index = index * 10 + (s.p[i] - '0');
        }
        struct val key = digits ? v_int(index) : v_str(s.p, n);
        struct val from = *out;
        rc = eval_getitem(r, &from, &key, out);
        if (!dot) {
            break;
        }
        s = (struct chat_str){dot + 1, s.n - n - 1};
    }
    return rc;
}

/* Strings compare in lower case unless case_sensitive. */
static int
fold(struct rt *r, const struct val *v, const struct val *case_sensitive, struct val *out) {
    *out = *v;
    return v->type == V_STR && !v_true(case_sensitive) ? str_case(r, v->u.s, 'l', out) : 0;
}

struct keyed {
    struct val key;
    struct val val;
};

/* Stable merge of two sorted halves. */
static int merge(struct rt *r, struct keyed *a, struct keyed *tmp, int64_t n, bool reverse) {
    if (n < 2) {
        return 0;
    }
    int64_t mid = n / 2;
    int rc = merge(r, a, tmp, mid, reverse);
    rc = rc ? rc : merge(r, a + mid, tmp, n - mid, reverse);
    if (rc) {
        return rc;
    }
    memcpy(tmp, a, (size_t)n * sizeof *a);
    int64_t i = 0;
    int64_t j = mid;
    for (int64_t k = 0; k < n; k++) {
        int32_t c = 0;
        rc = i < mid && j < n ? v_cmp(r, &tmp[j].key, &tmp[i].key, &c) : 0;
        rc = rc ? rc : eval_step(r, NULL);
        if (rc) {
            return rc;
        }
        bool right = i == mid || (j < n && (reverse ? c > 0 : c < 0));
        a[k] = right ? tmp[j++] : tmp[i++];
    }
    return 0;
}

static int sort(struct rt *r, struct keyed *k, int64_t n, bool reverse, struct val *out) {
    struct keyed *tmp = arena_get(&r->arena, n * (int64_t)sizeof *tmp);
    int rc = tmp ? merge(r, k, tmp, n, reverse) : arena_rc(&r->arena);
    rc = rc ? rc : v_seq(r, SEQ_LIST, n, out);
    for (int64_t i = 0; i < n && !rc; i++) {
        rc = v_push(r, out->u.seq, k[i].val);
    }
    return rc;
}

/* The key of "a,b" is the list of both. */
static int sort_key(struct rt *r,
                    const struct val *item,
                    const struct val *attr,
                    const struct val *sensitive,
                    struct val *out) {
    struct val v;
    const char *comma = attr->type == V_STR && attr->u.s.n > 0
                            ? memchr(attr->u.s.p, ',', (size_t)attr->u.s.n)
                            : NULL;
    if (!comma) {
        int rc = by_path(r, *item, attr, &v);
        return rc ? rc : fold(r, &v, sensitive, out);
    }
    int rc = v_seq(r, SEQ_LIST, 2, out);
    struct chat_str s = attr->u.s;
    while (!rc) {
        comma = s.n > 0 ? memchr(s.p, ',', (size_t)s.n) : NULL;
        struct val path = v_str(s.p, comma ? comma - s.p : s.n);
        rc = by_path(r, *item, &path, &v);
        rc = rc ? rc : fold(r, &v, sensitive, &v);
        rc = rc ? rc : v_push(r, out->u.seq, v);
        if (!comma) {
            break;
        }
        s = (struct chat_str){comma + 1, s.p + s.n - comma - 1};
    }
    return rc;
}

static int f_sort(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    struct seq *items;
    int rc = v_items(r, self, &items);
    struct keyed *k = rc ? NULL : arena_get(&r->arena, items->n * (int64_t)sizeof *k);
    if (!k) {
        return rc ? rc : arena_rc(&r->arena);
    }
    for (int64_t i = 0; i < items->n && !rc; i++) {
        k[i].val = items->v[i];
        rc = sort_key(r, &items->v[i], &a[2], &a[1], &k[i].key);
    }
    return rc ? rc : sort(r, k, items->n, v_true(&a[0]), out);
}

static int f_dictsort(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    if (self->type != V_DICT) {
        return v_bad(self, "dictsort");
    }
    const struct dict *d = self->u.dict;
    struct chat_str by = {"key", 3};
    int rc = a[1].type == V_MISSING ? 0 : v_need_str(r, &a[1], "dictsort", &by);
    struct keyed *k = rc ? NULL : arena_get(&r->arena, d->n * (int64_t)sizeof *k);
    if (!k) {
        return rc ? rc : arena_rc(&r->arena);
    }
    bool by_value = str_is(by, "value");
    if (!by_value && !str_is(by, "key")) {
        return err_set(ERR_FORMAT, "dictsort: by \"%.*s\", want key or value", (int)by.n, by.p);
    }
    for (int64_t i = 0; i < d->n && !rc; i++) {
        rc = v_seq(r, SEQ_TUPLE, 2, &k[i].val);
        rc = rc ? rc : v_push(r, k[i].val.u.seq, d->e[i].key);
        rc = rc ? rc : v_push(r, k[i].val.u.seq, d->e[i].val);
        rc = rc ? rc : fold(r, by_value ? &d->e[i].val : &d->e[i].key, &a[0], &k[i].key);
    }
    return rc ? rc : sort(r, k, d->n, v_true(&a[2]), out);
}

static int f_list(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    struct seq *items;
    (void)a;
    int rc = v_items(r, self, &items);
    rc = rc ? rc : v_seq(r, SEQ_LIST, items->n, out);
    for (int64_t i = 0; !rc && i < items->n; i++) {
        rc = v_push(r, out->u.seq, items->v[i]);
    }
    return rc;
}

static int f_items(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    (void)a;
    int rc = 0;
    if (self->type != V_DICT && self->type != V_UNDEF) {
        return v_bad(self, "items");
    }
    rc = v_seq(r, SEQ_GEN, 0, out);
    for (int64_t i = 0; self->type == V_DICT && !rc && i < self->u.dict->n; i++) {
        struct val pair;
        rc = v_seq(r, SEQ_TUPLE, 2, &pair);
        rc = rc ? rc : v_push(r, pair.u.seq, self->u.dict->e[i].key);
        rc = rc ? rc : v_push(r, pair.u.seq, self->u.dict->e[i].val);
        rc = rc ? rc : v_push(r, out->u.seq, pair);
    }
    return rc;
}

static int f_join(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    struct seq *items;
    struct val sep = v_str("", 0);
    struct buf b;
    text_buf(&b);
    int rc = v_items(r, self, &items);
    rc = rc || a[0].type == V_MISSING ? rc : text_val(r, &a[0], &sep);
    for (int64_t i = 0; !rc && i < items->n; i++) {
        struct val v;
        rc = by_path(r, items->v[i], &a[1], &v);
        rc = rc || i == 0 ? rc : buf_add(&b, sep.u.s.p, sep.u.s.n);
        rc = rc ? rc : text_str(r, &v, &b);
    }
    rc = rc ? rc : v_take(r, &b, out);
    buf_fini(&b);
    return rc;
}

static int end_item(struct rt *r, const struct val *self, bool last, struct val *out) {
    struct seq *items;
    if (last && self->type == V_SEQ && self->u.seq->kind == SEQ_GEN) {
        return v_bad(self, "last");
    }
    int rc = v_items(r, self, &items);
    if (rc || items->n == 0) {
        return rc ? rc
                  : v_undef(r, out, "No %s item, sequence was empty.", last ? "last" : "first");
    }
    *out = items->v[last ? items->n - 1 : 0];
    return 0;
}

static int f_first(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    (void)a;
    return end_item(r, self, false, out);
}

static int f_last(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    (void)a;
    return end_item(r, self, true, out);
}

static int f_reverse(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    struct seq *items;
    (void)a;
    if (self->type == V_STR) {
        int64_t n = utf8_count((const uint8_t *)self->u.s.p, self->u.s.n);
        return str_slice(r, self->u.s, n - 1, -1, -1, out);
    }
    int rc = v_items(r, self, &items);
    rc = rc ? rc : v_seq(r, SEQ_GEN, 0, out);
    for (int64_t i = 0; !rc && i < items->n; i++) {
        rc = v_push(r, out->u.seq, items->v[items->n - 1 - i]);
    }
    return rc;
}

static int
extreme(struct rt *r, const struct val *self, const struct val *a, bool max, struct val *out) {
    struct seq *items;
    struct val best = v_none();
    int rc = v_items(r, self, &items);
    if (!rc && items->n == 0) {
        return v_undef(r, out, "No aggregated item, sequence was empty.");
    }
    for (int64_t i = 0; !rc && i < items->n; i++) {
        struct val k;
        int32_t c = 0;
        rc = by_path(r, items->v[i], &a[1], &k);
        rc = rc ? rc : fold(r, &k, &a[0], &k);
        rc = rc || i == 0 ? rc : v_cmp(r, &k, &best, &c);
        if (!rc && (i == 0 || (max ? c > 0 : c < 0))) {
            best = k;
            *out = items->v[i];
        }
    }
    return rc;
}

static int f_max(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    return extreme(r, self, a, true, out);
}

static int f_min(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    return extreme(r, self, a, false, out);
}

static int f_sum(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    struct seq *items;
    struct val total = a[1].type == V_MISSING ? v_int(0) : a[1];
    int rc = v_items(r, self, &items);
    for (int64_t i = 0; !rc && i < items->n; i++) {
        struct val v;
        struct val next;
        rc = by_path(r, items->v[i], &a[0], &v);
        rc = rc ? rc : eval_binary(r, OP_ADD, &total, &v, &next);
        total = rc ? total : next;
    }
    *out = total;
    return rc;
}

static int f_unique(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    struct seq *items;
    struct val seen;
    int rc = v_items(r, self, &items);
    rc = rc ? rc : v_dict(r, &seen);
    rc = rc ? rc : v_seq(r, SEQ_GEN, 0, out);
    for (int64_t i = 0; !rc && i < items->n; i++) {
        struct val k;
        rc = by_path(r, items->v[i], &a[1], &k);
        rc = rc ? rc : fold(r, &k, &a[0], &k);
        if (!rc && (k.type == V_DICT || (k.type == V_SEQ && k.u.seq->kind == SEQ_LIST))) {
            rc = v_bad(&k, "unique");
        }
        if (!rc && !v_get(seen.u.dict, k)) {
            rc = v_put(r, seen.u.dict, k, v_none());
            rc = rc ? rc : v_push(r, out->u.seq, items->v[i]);
        }
        r->steps += seen.u.dict->n / 16;
        rc = rc ? rc : eval_step(r, NULL);
    }
    return rc;
}

/* Lists of n items; the last one filled up. */
static int f_batch(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    struct seq *items;
    struct val row;
    int64_t n = 0;
    int rc = v_need_int(r, &a[0], "batch", &n);
    if (!rc && (n < 1 || n > BATCH_MAX)) {
        rc = err_set(ERR_RANGE, "batch: %lld", (long long)n);
    }
    rc = rc ? rc : v_items(r, self, &items);
    rc = rc ? rc : v_seq(r, SEQ_GEN, 0, out);
    for (int64_t i = 0; !rc && i < items->n; i++) {
        if (i % n == 0) {
            rc = v_seq(r, SEQ_LIST, 0, &row);
            rc = rc ? rc : v_push(r, out->u.seq, row);
        }
        rc = rc ? rc : v_push(r, row.u.seq, items->v[i]);
    }
    bool fill = !rc && a[1].type != V_MISSING && a[1].type != V_NONE && items->n > 0;
    while (fill && !rc && row.u.seq->n < n) {
        rc = v_push(r, row.u.seq, a[1]);
    }
    return rc;
}

/* n lists of about equal length. */
static int f_slice(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    struct seq *items;
    int64_t n = 0;
    int64_t at = 0;
    int rc = v_need_int(r, &a[0], "slice", &n);
    if (!rc && (n < 1 || n > BATCH_MAX)) {
        rc = err_set(ERR_RANGE, "slice: %lld", (long long)n);
    }
    rc = rc ? rc : v_items(r, self, &items);
    rc = rc ? rc : v_seq(r, SEQ_GEN, 0, out);
    for (int64_t i = 0; i < n && !rc; i++) {
        struct val row;
        int64_t more = i < items->n % n;
        rc = v_seq(r, SEQ_LIST, 0, &row);
        for (int64_t k = 0; k < items->n / n + more && !rc; k++) {
            rc = v_push(r, row.u.seq, items->v[at++]);
        }
        if (!rc && a[1].type != V_MISSING && a[1].type != V_NONE && !more) {
            rc = v_push(r, row.u.seq, a[1]);
        }
        rc = rc ? rc : v_push(r, out->u.seq, row);
    }
    return rc;
}

static int f_groupby(struct rt *r, const struct val *self, const struct val *a, struct val *out) {
    struct val sorted;
    struct val row;
    struct val last = v_none();
    struct val key[FN_ARGS_MAX] = {{.type = V_MISSING}, a[2], a[0]};
    int rc = f_sort(r, self, key, &sorted);
    rc = rc ? rc : v_seq(r, SEQ_LIST, 0, out);
    for (int64_t i = 0; !rc && i < sorted.u.seq->n; i++) {
        struct val k;
        struct val folded = {.type = V_MISSING};
        struct val pair;
        rc = by_path(r, sorted.u.seq->v[i], &a[0], &k);
        if (!rc && k.type == V_UNDEF && a[1].type != V_MISSING) {
            k = a[1];
        }
        rc = rc ? rc : fold(r, &k, &a[2], &folded);
        if (!rc && (i == 0 || !v_eq(&folded, &last))) {
            rc = v_seq(r, SEQ_LIST, 0, &row);
            rc = rc ? rc : v_seq(r, SEQ_TUPLE, 2, &pair);
            rc = rc ? rc : v_push(r, pair.u.seq, k);
            rc = rc ? rc : v_push(r, pair.u.seq, row);
            rc = rc ? rc : v_push(r, out->u.seq, pair);
        }
        last = folded;
        rc = rc ? rc : v_push(r, row.u.seq, sorted.u.seq->v[i]);
    }
    return rc;
}

/* map(attribute="x", default=d) or map("filter", arguments...) */
static int f_map(struct rt *r, const struct val *self, const struct args *a, struct val *out) {
    struct seq *items;
    struct val attribute = {.type = V_MISSING};
    struct val fallback = {.type = V_MISSING};
    const struct chat_fn *fn = NULL;
    struct args rest = {0};
    int rc = v_seq(r, SEQ_GEN, 0, out);
    if (rc || !v_true(self)) { /* why: jinja2 looks at nothing else then, not even for None */
        return rc;
    }
    rc = v_items(r, self, &items);
    for (int32_t i = 0; i < a->n_kw && a->n == 0 && !rc; i++) {
        bool path = str_is(a->kw[i].name, "attribute");
        if (!path && !str_is(a->kw[i].name, "default")) {
            return err_set(ERR_FORMAT, "map: argument \"%.*s\" is unknown", (int)a->kw[i].name.n,
                           a->kw[i].name.p);
        }
        *(path ? &attribute : &fallback) = a->kw[i].val;
    }
    if (!rc && a->n > 0) {
        struct chat_str name;
        rc = v_need_str(r, &a->v[0], "map", &name);
        fn = rc ? NULL : filter_find(name);
        rest = (struct args){.n = a->n - 1, .v = a->v + 1, .n_kw = a->n_kw, .kw = a->kw};
        if (!rc && !fn) {
            rc = err_set(ERR_FORMAT, "map: no filter named \"%.*s\"", (int)name.n, name.p);
        }
    } else if (!rc && attribute.type == V_MISSING) {
        rc = err_set(ERR_FORMAT, "map wants a filter or an attribute");
    }
    for (int64_t i = 0; !rc && i < items->n; i++) {
        struct val v;
        rc = fn ? call_fn(r, fn, &items->v[i], &rest, &v) : by_path(r, items->v[i], &attribute, &v);
        bool missing = !rc && v.type == V_UNDEF && fallback.type != V_MISSING;
        rc = rc ? rc : v_push(r, out->u.seq, missing ? fallback : v);
    }
    return rc;
}

/* select, reject, selectattr, rejectattr */
static int pick(struct rt *r,
                const struct val *self,
                const struct args *a,
                bool attr,
                bool keep,
                struct val *out) {
    struct seq *items;
    const struct chat_fn *fn = NULL;
    struct args rest = {0};
    struct val path = {.type = V_MISSING};
    int32_t off = attr ? 1 : 0;
    int rc = v_seq(r, SEQ_GEN, 0, out);
    if (rc || !v_true(self)) {
        return rc;
    }
    rc = v_items(r, self, &items);
    if (!rc && attr && a->n < 1) {
        rc = err_set(ERR_FORMAT, "selectattr and rejectattr want the name of an attribute");
    }
    if (!rc && attr) {
        path = a->v[0];
    }
    if (!rc && a->n > off) {
        struct chat_str name;
        rc = v_need_str(r, &a->v[off], "the name of a test", &name);
        fn = rc ? NULL : test_find(name);
        rest =
            (struct args){.n = a->n - off - 1, .v = a->v + off + 1, .n_kw = a->n_kw, .kw = a->kw};
        if (!rc && !fn) {
            rc = err_set(ERR_FORMAT, "no test named \"%.*s\"", (int)name.n, name.p);
        }
    }
    for (int64_t i = 0; !rc && i < items->n; i++) {
        struct val v;
        rc = by_path(r, items->v[i], &path, &v);
        if (!rc && fn) {
            struct val in = v;
            rc = call_fn(r, fn, &in, &rest, &v);
        }
        if (!rc && v_true(&v) == keep) {
            rc = v_push(r, out->u.seq, items->v[i]);
        }
        rc = rc ? rc : eval_step(r, NULL);
    }
    return rc;
}

static int f_select(struct rt *r, const struct val *self, const struct args *a, struct val *out) {
    return pick(r, self, a, false, true, out);
}

static int f_reject(struct rt *r, const struct val *self, const struct args *a, struct val *out) {
    return pick(r, self, a, false, false, out);
}

static int
f_selectattr(struct rt *r, const struct val *self, const struct args *a, struct val *out) {
    return pick(r, self, a, true, true, out);
}

static int
f_rejectattr(struct rt *r, const struct val *self, const struct args *a, struct val *out) {
    return pick(r, self, a, true, false, out);
}

const struct chat_fn *filter_seq_find(struct chat_str name) {
    static const struct chat_fn filters[] = {
        {"batch", "linecount fill_with", 1, f_batch, NULL},
        {"dictsort", "case_sensitive by reverse", 0, f_dictsort, NULL},
        {"first", "", 0, f_first, NULL},
        {"groupby", "attribute default case_sensitive", 1, f_groupby, NULL},
        {"items", "", 0, f_items, NULL},
        {"join", "d attribute", 0, f_join, NULL},
        {"last", "", 0, f_last, NULL},
        {"list", "", 0, f_list, NULL},
        {"map", "", 0, NULL, f_map},
        {"max", "case_sensitive attribute", 0, f_max, NULL},
        {"min", "case_sensitive attribute", 0, f_min, NULL},
        {"reject", "", 0, NULL, f_reject},
        {"rejectattr", "", 0, NULL, f_rejectattr},
        {"reverse", "", 0, f_reverse, NULL},
        {"select", "", 0, NULL, f_select},
        {"selectattr", "", 0, NULL, f_selectattr},
        {"slice", "slices fill_with", 1, f_slice, NULL},
        {"sort", "reverse case_sensitive attribute", 0, f_sort, NULL},
        {"sum", "attribute start", 0, f_sum, NULL},
        {"unique", "case_sensitive attribute", 0, f_unique, NULL},
    };
    return fn_find(filters, ARRAY_LEN(filters), name);
}
