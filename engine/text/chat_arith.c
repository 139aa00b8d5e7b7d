/* Arithmetic of templates: Python's operators on numbers, strings and sequences.
 *
 * Whole numbers have 64 bits here and not as many as needed: beyond that is an error, never a wrong
 * number. // and % round towards minus infinity. A safe string escapes what is added to it.
 * src: CPython, Objects/longobject.c, floatobject.c; markupsafe, Markup.__add__ */
#include <math.h>
#include <string.h>

#include "engine/text/chat_int.h"

static int overflow(void) {
    return err_set(ERR_RANGE, "a whole number beyond 64 bits");
}

static int int_pow(int64_t a, int64_t b, struct val *out) {
    int64_t x = 1;
    if (b < 0) {
        *out = v_float(pow((double)a, (double)b));
        return 0;
    }
    for (int64_t i = 0; i < b && (a < -1 || a > 1 || i < 2); i++) {
        if (!i64_mul(x, a, &x)) {
            return overflow();
        }
    }
    *out = v_int(b == 0 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : x);
    return 0;
}

static int int_arith(enum op op, int64_t a, int64_t b, struct val *out) {
    int64_t x = 0;
    bool ok = true;
    if (b == 0 && (op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD)) {
        return err_set(ERR_FORMAT, "division by zero");
    }
    if (op == OP_DIV) {
        *out = v_float((double)a / (double)b);
        return 0;
    }
    if (op == OP_POW) {
        return int_pow(a, b, out);
    }
    if ((op == OP_FLOORDIV || op == OP_MOD) && b == -1) {
        ok = op == OP_MOD || a != INT64_MIN;
        x = op == OP_MOD || !ok ? 0 : -a;
    } else if (op == OP_FLOORDIV) {
        x = a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
    } else if (op == OP_MOD) {
        x = a % b;
        x += x != 0 && ((x < 0) != (b < 0)) ? b : 0;
    } else if (op == OP_MUL) {
        ok = i64_mul(a, b, &x);
    } else {
        ok = op == OP_ADD ? !__builtin_add_overflow(a, b, &x) : !__builtin_sub_overflow(a, b, &x);
    }
    *out = v_int(x);
    return ok ? 0 : overflow();
}

static int float_arith(enum op op, double a, double b, struct val *out) {
    bool div = op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD;
    if (div && !(b < 0 || b > 0 || isnan(b))) {
        return err_set(ERR_FORMAT, "division by zero");
    }
    double m = op == OP_MOD ? fmod(a, b) : 0;
    m += (m < 0 && b > 0) || (m > 0 && b < 0) ? b : 0;
    *out = v_float(op == OP_ADD        ? a + b
                   : op == OP_SUB      ? a - b
                   : op == OP_MUL      ? a * b
                   : op == OP_DIV      ? a / b
                   : op == OP_FLOORDIV ? floor(a / b)
                   : op == OP_MOD      ? m
                                       : pow(a, b));
    return 0;
}

int str_join(struct rt *r, struct chat_str a, struct chat_str b, struct val *out) {
    char *p = arena_get(&r->arena, a.n + b.n + 1);
    if (!p) {
        return arena_rc(&r->arena);
    }
    memcpy(p, a.p, (size_t)a.n);
    memcpy(p + a.n, b.p, (size_t)b.n);
    *out = v_str(p, a.n + b.n);
    return 0;
}

/* A safe string and a plain one: the plain one is escaped, the sum is safe. */
static int add_strings(struct rt *r, struct val a, struct val b, struct val *out) {
    bool safe = a.safe || b.safe;
    int rc = safe && !a.safe ? str_escape(r, a.u.s, &a) : 0;
    rc = rc || !safe || b.safe ? rc : str_escape(r, b.u.s, &b);
    rc = rc ? rc : str_join(r, a.u.s, b.u.s, out);
    out->safe = safe;
    return rc;
}

static int join_lists(struct rt *r, const struct seq *a, const struct seq *b, struct val *out) {
    int rc = v_seq(r, a->kind, a->n + b->n, out);
    for (int64_t i = 0; i < a->n + b->n && !rc; i++) {
        rc = v_push(r, out->u.seq, i < a->n ? a->v[i] : b->v[i - a->n]);
    }
    return rc;
}

/* "ab" * 3, [1] * 3 */
static int repeat(struct rt *r, const struct val *v, int64_t times, struct val *out) {
    int64_t n = i64_max(times, 0);
    int64_t each = v->type == V_STR ? v->u.s.n : v->u.seq->n;
    int64_t total = 0;
    if (!i64_mul(n, i64_max(each, 1), &total) || total > CHAT_MEMORY_MAX) {
        return err_set(ERR_LIMIT, "a value repeated %lld times", (long long)times);
    }
    if (v->type == V_SEQ) {
        int rc = v_seq(r, v->u.seq->kind, n * each, out);
        for (int64_t i = 0; i < n * each && !rc; i++) {
            rc = v_push(r, out->u.seq, v->u.seq->v[i % each]);
        }
        return rc;
    }
    char *p = arena_get(&r->arena, n * each + 1);
    if (!p) {
        return arena_rc(&r->arena);
    }
    for (int64_t i = 0; i < n && each > 0; i++) {
        memcpy(p + i * each, v->u.s.p, (size_t)each);
    }
    *out = v_str(p, n * each);
    out->safe = v->safe;
    return 0;
}

static bool list_or_tuple(const struct val *v) {
    return v->type == V_SEQ && v->u.seq->kind <= SEQ_TUPLE;
}

int eval_binary(
    struct rt *r, enum op op, const struct val *a, const struct val *b, struct val *out) {
    if (v_is_num(a) && v_is_num(b)) {
        if (a->type == V_FLOAT || b->type == V_FLOAT) {
            return float_arith(op, v_num(a), v_num(b), out);
        }
        int64_t x = a->type == V_INT ? a->u.i : a->u.b;
        int64_t y = b->type == V_INT ? b->u.i : b->u.b;
        return int_arith(op, x, y, out);
    }
    if (op == OP_ADD && a->type == V_STR && b->type == V_STR) {
        return add_strings(r, *a, *b, out);
    }
    if (op == OP_ADD && list_or_tuple(a) && list_or_tuple(b) && a->u.seq->kind == b->u.seq->kind) {
        return join_lists(r, a->u.seq, b->u.seq, out);
    }
    if (op == OP_MUL && (a->type == V_STR || list_or_tuple(a)) && b->type == V_INT) {
        return repeat(r, a, b->u.i, out);
    }
    if (op == OP_MUL && (b->type == V_STR || list_or_tuple(b)) && a->type == V_INT) {
        return repeat(r, b, a->u.i, out);
    }
    const struct val *bad = a->type == V_UNDEF ? a : b->type == V_UNDEF ? b : NULL;
    return bad ? v_bad(bad, "arithmetic")
               : err_set(ERR_FORMAT, "unsupported operand types: %s and %s", v_type(a), v_type(b));
}
