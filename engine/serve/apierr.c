/* The error object of the OpenAI API.
 *
 *     {"error": {"message": "...", "type": "invalid_request_error", "param": "top_p", "code":
 * null}}
 *
 * The type follows from the status alone. */
#include "engine/serve/apierr.h"

#include <stdarg.h>
#include <stdio.h>

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "engine/serve/jsonout.h"

int apierr_set(struct apierr *e, int32_t status, const char *param, const char *fmt, ...) {
    va_list ap;
    e->status = status;
    e->code = NULL;
    str_copy(e->param, APIERR_PARAM_MAX, param ? param : "");
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    return ERR_FORMAT;
}

static int32_t status_of(int rc) {
    static const struct {
        int rc;
        int32_t status;
    } table[] = {{ERR_FORMAT, 400},      {ERR_RANGE, 400},   {ERR_LIMIT, 400}, {ERR_NOTFOUND, 400},
                 {ERR_UNSUPPORTED, 400}, {ERR_BUSY, 429},    {ERR_AGAIN, 429}, {ERR_NOMEM, 503},
                 {ERR_DEVICE, 503},      {ERR_CANCELED, 503}};
    for (int32_t i = 0; i < ARRAY_LEN(table); i++) {
        if (table[i].rc == rc) {
            return table[i].status;
        }
    }
    return 500;
}

int apierr_from(struct apierr *e, int rc, const char *param) {
    apierr_set(e, status_of(rc), param, "%s", err_msg()[0] ? err_msg() : err_text(rc));
    return rc;
}

static const char *type_of(int32_t status) {
    switch (status) {
    case 401:
        return "authentication_error";
    case 404:
        return "not_found_error";
    case 429:
        return "rate_limit_error";
    default:
        return status < 500 ? "invalid_request_error" : "server_error";
    }
}

int apierr_format(const struct apierr *e, struct buf *out) {
    int rc = buf_str(out, "{\"error\":{\"message\":");
    rc = rc ? rc : jsonout_str(out, e->text);
    rc = rc ? rc : buf_fmt(out, ",\"type\":\"%s\",\"param\":", type_of(e->status));
    rc = rc ? rc : jsonout_str(out, e->param[0] ? e->param : NULL);
    rc = rc ? rc : buf_str(out, ",\"code\":");
    rc = rc ? rc : jsonout_str(out, e->code);
    return rc ? rc : buf_str(out, "}}");
}

bool apierr_retry(const struct apierr *e) {
    return e->status == 429 || e->status == 503;
}
