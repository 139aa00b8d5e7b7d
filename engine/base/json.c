#include "engine/base/json.h"

#include <math.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/base/file.h"

int json_parse(const char *where, const char *text, int64_t n, json_t **out) {
    json_error_t e;
    json_t *j = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    if (!j) {
        return err_set(ERR_FORMAT, "%s: line %d, column %d: %s", where, e.line, e.column, e.text);
    }
    *out = j;
    return 0;
}

int json_read(const char *path, json_t **out) {
    struct buf b;
    buf_init(&b, MEM_BASE, JSON_FILE_MAX);
    int rc = file_read(path, &b);
    if (!rc) {
        rc = json_parse(path, buf_cstr(&b), b.len, out);
    }
    buf_fini(&b);
    return rc;
}

static const char *type_name(const json_t *v) {
    static const char *const names[] = {"an object", "an array", "a string", "an integer",
                                        "a real",    "true",     "false",    "null"};
    return names[json_typeof(v)];
}

static int wrong(const char *where, const char *key, const char *want, const json_t *v) {
    return err_set(ERR_FORMAT, "%s: \"%s\" is %s, want %s", where, key, type_name(v), want);
}

int json_opt_i64(
    const json_t *o, const char *where, const char *key, int64_t lo, int64_t hi, int64_t *out) {
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v)) {
        return 0;
    }
    double d = json_number_value(v);
    if (!json_is_number(v) || d != floor(d)) {
        return wrong(where, key, "a whole number", v);
    }
    bool fits = json_is_integer(v) || (d >= -0x1p63 && d < 0x1p63);
    int64_t i = json_is_integer(v) ? (int64_t)json_integer_value(v) : fits ? (int64_t)d : 0;
    if (!fits || i < lo || i > hi) {
        return err_set(ERR_RANGE, "%s: \"%s\" is %.17g, want %lld..%lld", where, key, d,
                       (long long)lo, (long long)hi);
    }
    *out = i;
    return 0;
}

int json_opt_i32(
    const json_t *o, const char *where, const char *key, int32_t lo, int32_t hi, int32_t *out) {
    int64_t v = *out;
    int rc = json_opt_i64(o, where, key, lo, hi, &v);
    if (!rc) {
        *out = (int32_t)v;
    }
    return rc;
}

int json_opt_f64(const json_t *o, const char *where, const char *key, double *out) {
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v)) {
        return 0;
    }
    if (!json_is_number(v) || !isfinite(json_number_value(v))) {
        return wrong(where, key, "a finite number", v);
    }
    *out = json_number_value(v);
    return 0;
}

int json_opt_bool(const json_t *o, const char *where, const char *key, bool *out) {
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v)) {
        return 0;
    }
    if (!json_is_boolean(v)) {
        return wrong(where, key, "true or false", v);
    }
    *out = json_is_true(v);
    return 0;
}

int json_opt_str(const json_t *o, const char *where, const char *key, const char **out) {
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v)) {
        return 0;
    }
    if (!json_is_string(v)) {
        return wrong(where, key, "a string", v);
    }
    *out = json_string_value(v);
    return 0;
}

static int present(const json_t *o, const char *where, const char *key) {
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v)) {
        return err_set(ERR_FORMAT, "%s: \"%s\" is missing", where, key);
    }
    return 0;
}

int json_need_i32(
    const json_t *o, const char *where, const char *key, int32_t lo, int32_t hi, int32_t *out) {
    int rc = present(o, where, key);
    return rc ? rc : json_opt_i32(o, where, key, lo, hi, out);
}

int json_need_str(const json_t *o, const char *where, const char *key, const char **out) {
    int rc = present(o, where, key);
    return rc ? rc : json_opt_str(o, where, key, out);
}
