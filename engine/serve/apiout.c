/* Objects are written by hand, since a stream writes one for every token.
 *
 *     data:
 * {"id":..,"object":"chat.completion.chunk","created":..,"model":..,"choices":[{"index":0,
 *            "delta":{"content":"text"},"logprobs":null,"finish_reason":null}]}
 *
 * Order of a stream: role (chat), texts, finish of each choice, usage when asked for, [DONE].
 * src: OpenAI API reference, streaming */
#include "engine/serve/apiout.h"

#include "engine/serve/jsonout.h"

static int head(const struct apiout *o, bool chunk, struct buf *out) {
    const char *object = !o->chat ? "text_completion"
                         : chunk  ? "chat.completion.chunk"
                                  : "chat.completion";
    int rc = buf_fmt(out, "%s{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":",
                     chunk ? "data: " : "", o->id, object, (long long)o->created_s);
    rc = rc ? rc : jsonout_str(out, o->model);
    return rc ? rc : buf_str(out, ",\"choices\":[");
}

static int chunk_end(const struct apiout *o, struct buf *out) {
    if (o->each) {
        return buf_fmt(out,
                       "],\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,"
                       "\"total_tokens\":%lld}}\n\n",
                       (long long)o->now.n_prompt, (long long)o->now.n_new,
                       (long long)(o->now.n_prompt + o->now.n_new));
    }
    return buf_str(out, o->usage ? "],\"usage\":null}\n\n" : "]}\n\n");
}

static int finish_reason(const char *reason, struct buf *out) {
    int rc = buf_str(out, ",\"finish_reason\":");
    rc = rc ? rc : jsonout_str(out, reason);
    return rc ? rc : buf_str(out, "}");
}

int apiout_role(const struct apiout *o, int32_t index, struct buf *out) {
    int rc = head(o, true, out);
    rc = rc ? rc
            : buf_fmt(out,
                      "{\"index\":%d,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                      "\"logprobs\":null",
                      index);
    rc = rc ? rc : finish_reason(NULL, out);
    return rc ? rc : chunk_end(o, out);
}

int apiout_delta(const struct apiout *o,
                 int32_t index,
                 const char *text,
                 int64_t n,
                 struct lpout *lp,
                 struct buf *out) {
    int rc = head(o, true, out);
    rc = rc ? rc
            : buf_fmt(out,
                      o->chat ? "{\"index\":%d,\"delta\":{\"content\":" : "{\"index\":%d,\"text\":",
                      index);
    rc = rc ? rc : jsonout_strn(out, text, n);
    rc = rc ? rc : buf_str(out, o->chat ? "},\"logprobs\":" : ",\"logprobs\":");
    rc = rc ? rc : lpout_format(lp, out);
    rc = rc ? rc : finish_reason(NULL, out);
    return rc ? rc : chunk_end(o, out);
}

int apiout_finish(const struct apiout *o, int32_t index, const char *reason, struct buf *out) {
    int rc = head(o, true, out);
    rc = rc ? rc
            : buf_fmt(out,
                      o->chat ? "{\"index\":%d,\"delta\":{},\"logprobs\":null"
                              : "{\"index\":%d,\"text\":\"\",\"logprobs\":null",
                      index);
    rc = rc ? rc : finish_reason(reason, out);
    return rc ? rc : chunk_end(o, out);
}

static int usage(const struct apiout_usage *u, struct buf *out) {
    return buf_fmt(out,
                   "\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":"
                   "%lld,\"prompt_tokens_details\":{\"cached_tokens\":%lld}}",
                   (long long)u->n_prompt, (long long)u->n_new, (long long)(u->n_prompt + u->n_new),
                   (long long)u->n_cached);
}

int apiout_stream_usage(const struct apiout *o, const struct apiout_usage *u, struct buf *out) {
    int rc = head(o, true, out);
    rc = rc ? rc : buf_str(out, "],");
    rc = rc ? rc : usage(u, out);
    return rc ? rc : buf_str(out, "}\n\n");
}

int apiout_stream_error(const struct apierr *e, struct buf *out) {
    int rc = buf_str(out, "data: ");
    rc = rc ? rc : apierr_format(e, out);
    return rc ? rc : buf_str(out, "\n\n");
}

int apiout_done(struct buf *out) {
    return buf_str(out, "data: [DONE]\n\n");
}

int apiout_begin(const struct apiout *o, struct buf *out) {
    return head(o, false, out);
}

int apiout_choice(const struct apiout *o,
                  int32_t index,
                  const char *text,
                  int64_t n,
                  struct lpout *lp,
                  const char *reason,
                  struct buf *out) {
    int rc = index > 0 ? buf_str(out, ",") : 0;
    rc = rc ? rc
            : buf_fmt(out,
                      o->chat ? "{\"index\":%d,\"message\":{\"role\":\"assistant\",\"content\":"
                              : "{\"index\":%d,\"text\":",
                      index);
    rc = rc ? rc : jsonout_strn(out, text, n);
    rc = rc ? rc : buf_str(out, o->chat ? ",\"refusal\":null},\"logprobs\":" : ",\"logprobs\":");
    rc = rc ? rc : lpout_format(lp, out);
    return rc ? rc : finish_reason(reason, out);
}

int apiout_end(const struct apiout_usage *u, struct buf *out) {
    int rc = buf_str(out, "],");
    rc = rc ? rc : usage(u, out);
    return rc ? rc : buf_str(out, "}");
}

int apiout_models(const char *model, int64_t created_s, int32_t ctx_max, struct buf *out) {
    int rc = buf_str(out, "{\"object\":\"list\",\"data\":[{\"id\":");
    rc = rc ? rc : jsonout_str(out, model);
    return rc ? rc
              : buf_fmt(out,
                        ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"trilemma\","
                        "\"max_model_len\":%d}]}",
                        (long long)created_s, ctx_max);
}

int apiout_tokens(const struct tok_ids *ids, int32_t ctx_max, struct buf *out) {
    int rc = buf_fmt(out, "{\"count\":%d,\"max_model_len\":%d,\"tokens\":[", ids->n, ctx_max);
    for (int32_t i = 0; i < ids->n && !rc; i++) {
        rc = buf_fmt(out, "%s%d", i ? "," : "", ids->v[i]);
    }
    return rc ? rc : buf_str(out, "]}");
}

int apiout_text(const char *text, int64_t n, struct buf *out) {
    int rc = buf_str(out, "{\"prompt\":");
    rc = rc ? rc : jsonout_strn(out, text, n);
    return rc ? rc : buf_str(out, "}");
}
