/* Tests: x is NAME.
 *
 * src: jinja2 3.1, tests.py */
#include "engine/text/chat_int.h"

#define TEST_OF(name, expr)                                                                        \
    static int t_##name(struct rt *r, const struct val *v, const struct val *a, struct val *out) { \
        (void)r;                                                                                   \
        (void)a;                                                                                   \
        *out = v_bool(expr);                                                                       \
        return 0;                                                                                  \
    }

TEST_OF(defined, v->type != V_UNDEF)
TEST_OF(undefined, v->type == V_UNDEF)
TEST_OF(none, v->type == V_NONE)
TEST_OF(boolean, v->type == V_BOOL)
TEST_OF(true, v->type == V_BOOL && v->u.b)
TEST_OF(false, v->type == V_BOOL && !v->u.b)
TEST_OF(integer, v->type == V_INT)
TEST_OF(float, v->type == V_FLOAT)
TEST_OF(number, v_is_num(v))
TEST_OF(string, v->type == V_STR)
TEST_OF(mapping, v->type == V_DICT)
TEST_OF(iterable, v_iterable(v))
TEST_OF(callable, v->type >= V_MACRO || v->type == V_LOOP || v->type == V_UNDEF)
TEST_OF(escaped, v->type == V_STR && v->safe)
TEST_OF(sequence,
        v->type == V_UNDEF || v->type == V_STR || v->type == V_DICT ||
            (v->type == V_SEQ && (v->u.seq->kind <= SEQ_TUPLE || v->u.seq->kind == SEQ_RANGE)))
TEST_OF(eq, v_eq(v, &a[0]))
TEST_OF(ne, !v_eq(v, &a[0]))
TEST_OF(filter, v->type == V_STR && filter_find(v->u.s) != NULL)
TEST_OF(test, v->type == V_STR && test_find(v->u.s) != NULL)

/* why: identity of two equal immutable values cannot be seen otherwise */
TEST_OF(sameas, v->type == a[0].type && v_eq(v, &a[0]))

static int order(struct rt *r, const struct val *v, const struct val *a, int32_t *c) {
    return v_cmp(r, v, &a[0], c);
}

#define ORDER_OF(name, expr)                                                                       \
    static int t_##name(struct rt *r, const struct val *v, const struct val *a, struct val *out) { \
        int32_t c = 0;                                                                             \
        int rc = order(r, v, a, &c);                                                               \
        *out = v_bool(expr);                                                                       \
        return rc;                                                                                 \
    }
ORDER_OF(lt, c < 0)
ORDER_OF(le, c <= 0)
ORDER_OF(gt, c > 0)
ORDER_OF(ge, c >= 0)

static int t_in(struct rt *r, const struct val *v, const struct val *a, struct val *out) {
    bool in = false;
    int rc = v_contains(r, v, &a[0], &in);
    *out = v_bool(in);
    return rc;
}

/* value % by == want */
static int
remainder_is(struct rt *r, const struct val *v, struct val by, int64_t want, struct val *out) {
    struct val m;
    struct val w = v_int(want);
    int rc = v_is_num(v) ? eval_binary(r, OP_MOD, v, &by, &m) : v_bad(v, "a test of remainders");
    *out = v_bool(!rc && v_eq(&m, &w));
    return rc;
}

static int t_odd(struct rt *r, const struct val *v, const struct val *a, struct val *out) {
    (void)a;
    return remainder_is(r, v, v_int(2), 1, out);
}

static int t_even(struct rt *r, const struct val *v, const struct val *a, struct val *out) {
    (void)a;
    return remainder_is(r, v, v_int(2), 0, out);
}

static int t_divisibleby(struct rt *r, const struct val *v, const struct val *a, struct val *out) {
    return remainder_is(r, v, a[0], 0, out);
}

static int case_is(struct rt *r, const struct val *v, char what, struct val *out) {
    struct val text;
    int rc = text_val(r, v, &text);
    *out = v_bool(!rc && str_all(text.u.s, what));
    return rc;
}

static int t_lower(struct rt *r, const struct val *v, const struct val *a, struct val *out) {
    (void)a;
    return case_is(r, v, 'l', out);
}

static int t_upper(struct rt *r, const struct val *v, const struct val *a, struct val *out) {
    (void)a;
    return case_is(r, v, 'u', out);
}

const struct chat_fn *test_find(struct chat_str name) {
    static const struct chat_fn tests[] = {
        {"boolean", "", 0, t_boolean, NULL},     {"callable", "", 0, t_callable, NULL},
        {"defined", "", 0, t_defined, NULL},     {"divisibleby", "num", 1, t_divisibleby, NULL},
        {"eq", "other", 1, t_eq, NULL},          {"equalto", "other", 1, t_eq, NULL},
        {"==", "other", 1, t_eq, NULL},          {"escaped", "", 0, t_escaped, NULL},
        {"even", "", 0, t_even, NULL},           {"false", "", 0, t_false, NULL},
        {"filter", "", 0, t_filter, NULL},       {"float", "", 0, t_float, NULL},
        {"ge", "other", 1, t_ge, NULL},          {">=", "other", 1, t_ge, NULL},
        {"greaterthan", "other", 1, t_gt, NULL}, {"gt", "other", 1, t_gt, NULL},
        {">", "other", 1, t_gt, NULL},           {"in", "seq", 1, t_in, NULL},
        {"integer", "", 0, t_integer, NULL},     {"iterable", "", 0, t_iterable, NULL},
        {"le", "other", 1, t_le, NULL},          {"<=", "other", 1, t_le, NULL},
        {"lessthan", "other", 1, t_lt, NULL},    {"lower", "", 0, t_lower, NULL},
        {"lt", "other", 1, t_lt, NULL},          {"<", "other", 1, t_lt, NULL},
        {"mapping", "", 0, t_mapping, NULL},     {"ne", "other", 1, t_ne, NULL},
        {"!=", "other", 1, t_ne, NULL},          {"none", "", 0, t_none, NULL},
        {"number", "", 0, t_number, NULL},       {"odd", "", 0, t_odd, NULL},
        {"sameas", "other", 1, t_sameas, NULL},  {"sequence", "", 0, t_sequence, NULL},
        {"string", "", 0, t_string, NULL},       {"test", "", 0, t_test, NULL},
        {"true", "", 0, t_true, NULL},           {"undefined", "", 0, t_undefined, NULL},
        {"upper", "", 0, t_upper, NULL},
    };
    return fn_find(tests, ARRAY_LEN(tests), name);
}
