/* One JSON document of an OpenAI-compatible answer: a chunk of a stream or a whole body.
 *
 * src: OpenAI API reference, chat completions, completions, responses (2025); vLLM's and SGLang's
 * reasoning_content and running usage; what a field means is decided by its shape, not by the
 * server's name. */
#ifndef HARNESS_CHUNK_H
#define HARNESS_CHUNK_H

#include "engine/base/buf.h"

enum chunk_api { CHUNK_CHAT, CHUNK_COMPLETIONS, CHUNK_RESPONSES, CHUNK_API_N };

enum { CHUNK_TEXT_MAX = 160, CHUNK_FINISH_MAX = 40 };

/* Numbers: -1 not said. */
struct chunk {
    struct buf *text;    /* ref: receives text, reasoning and tool arguments, in that order */
    int64_t n_answer;    /* bytes of the answer proper in text: content, tool calls */
    int64_t n_reasoning; /* bytes of reasoning in text */
    int64_t n_ids;       /* token ids that the chunk lists, of one choice */
    int64_t n_logprobs;  /* tokens with log-probabilities, of one choice */
    int64_t n_prompt;    /* usage */
    int64_t n_output;
    int64_t n_cached;
    int64_t n_reasoning_tokens;
    bool has_choices; /* shaped as an answer, even an empty one */
    bool is_last;     /* the stream says that nothing follows (responses) */
    bool is_error;
    char finish[CHUNK_FINISH_MAX]; /* "" when not said */
    char error[CHUNK_TEXT_MAX];    /* of is_error */
};

/* Reads one document.
 * in:   c->text initialised; content is appended
 * out:  *c
 * err:  ERR_FORMAT (no JSON, no object, a field of a wrong type), ERR_LIMIT, ERR_NOMEM */
int chunk_read(enum chunk_api api, const char *json, int64_t n, struct buf *text, struct chunk *c);

/* "chat", "completions", "responses", and its path below the base URL. */
const char *chunk_api_name(enum chunk_api api);
const char *chunk_api_path(enum chunk_api api);

/* out: CHUNK_API_N for no name */
enum chunk_api chunk_api_of(const char *name);

#endif
