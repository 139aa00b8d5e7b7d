/* Chat templates: the Jinja language as transformers sets it up.
 *
 * trim_blocks and lstrip_blocks on, the immutable sandbox, loop controls, raise_exception,
 * strftime_now, {% generation %}, and tojson that keeps text as it is. Output is byte-equal to
 * jinja2's. Not in the language here: include, import, extends, block, trans, autoescape. */
#ifndef ENGINE_TEXT_CHAT_H
#define ENGINE_TEXT_CHAT_H

#include "engine/base/buf.h"
#include "engine/base/json.h"

struct chat;

enum {
    CHAT_SOURCE_MAX = 1 << 22, /* bytes of a template */
    CHAT_OUTPUT_MAX = 1 << 28, /* bytes of a rendering */
    CHAT_MEMORY_MAX = 1 << 29, /* bytes of values during a rendering */
    CHAT_STEPS_MAX = 20000000, /* expressions and statements of a rendering */
    CHAT_DEPTH_MAX = 120,      /* nesting, in the source and of calls */
    CHAT_RANGE_MAX = 100000,   /* elements of range(), as in jinja2's sandbox */
};

/* Compiles n bytes of a template; where names it in errors.
 * err: ERR_FORMAT (syntax, unknown tag, filter or test; with the line), ERR_LIMIT, ERR_NOMEM.
 *      Like jinja2, an unknown filter or test inside of an {% if %} or an inline if is an error
 * only when it is reached own: caller, chat_free. A compiled template is immutable; threads may
 * render it at once */
int chat_compile(const char *where, const char *src, int64_t n, struct chat **out);
void chat_free(struct chat *c);

/* Renders with the members of vars as variables (messages, tools, add_generation_prompt, ...).
 * in:   vars a JSON object, in the order of its members; now_s seconds since 1970 UTC for
 *       strftime_now, which prints UTC
 * out:  text appended to out; on failure out keeps only what it had
 * err:  ERR_FORMAT with the line: raise_exception's message, use of an undefined value, a type that
 *       an operation does not take, a forbidden attribute; ERR_LIMIT, ERR_NOMEM */
int chat_render(const struct chat *c, const json_t *vars, int64_t now_s, struct buf *out);

#endif
