/* The bytes of the truth server's answers, in the words of each endpoint.
 * src: OpenAI API reference; RFC 9112, 7.1 (chunked) */
#include <stdio.h>
#include <string.h>

#include "harness/truth_int.h"

/* One event as a chunk of HTTP. */
static int frame_event(struct truth *t, const char *fields, int32_t number) {
    char data[512];
    int n = snprintf(data, sizeof data, "data: {\"id\":\"%d\",%s}\n\n", number, fields);
    return buf_fmt(&t->frame, "%x\r\n%s\r\n", (unsigned)n, data);
}

static int frame_plain(struct truth *t, const char *data) {
    return buf_fmt(&t->frame, "%x\r\n%s\r\n", (unsigned)strlen(data), data);
}

int truth_token(struct truth *t, const struct truth_conn *c, int32_t n) {
    char words[256];
    char json[400];
    size_t len = 0;
    for (int32_t i = 0; i < n && len + 8 < sizeof words; i++) {
        len += (size_t)snprintf(words + len, sizeof words - len, " w%d", (c->n_told + i) % 1000);
    }
    if (c->api == CHUNK_RESPONSES) {
        snprintf(json, sizeof json, "\"type\":\"response.output_text.delta\",\"delta\":\"%s\"",
                 words);
    } else if (c->api == CHUNK_COMPLETIONS) {
        snprintf(json, sizeof json,
                 "\"object\":\"text_completion\",\"created\":1,\"model\":\"truth\",\"choices\":[{"
                 "\"index\":0,\"text\":\"%s\",\"finish_reason\":null}]",
                 words);
    } else {
        snprintf(json, sizeof json,
                 "\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"truth\","
                 "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"},\"logprobs\":null,"
                 "\"finish_reason\":null}]",
                 words);
    }
    return frame_event(t, json, c->record);
}

/* What follows the last token. */
int truth_end(struct truth *t, const struct truth_conn *c) {
    char json[300];
    int rc = 0;
    if (c->api == CHUNK_RESPONSES) {
        snprintf(json, sizeof json,
                 "\"type\":\"response.completed\",\"response\":{\"status\":\"completed\","
                 "\"usage\":{\"input_tokens\":8,\"output_tokens\":%d}}",
                 c->n_tokens);
        rc = frame_event(t, json, c->record);
        return rc ? rc : buf_str(&t->frame, "0\r\n\r\n");
    }
    snprintf(json, sizeof json, "\"choices\":[{\"index\":0,%s,\"finish_reason\":\"length\"}]",
             c->api == CHUNK_CHAT ? "\"delta\":{}" : "\"text\":\"\"");
    rc = frame_event(t, json, c->record);
    if (!rc && c->want_usage) {
        snprintf(json, sizeof json,
                 "\"choices\":[],\"usage\":{\"prompt_tokens\":8,\"completion_tokens\":%d}",
                 c->n_tokens);
        rc = frame_event(t, json, c->record);
    }
    rc = rc ? rc : frame_plain(t, "data: [DONE]\n\n");
    return rc ? rc : buf_str(&t->frame, "0\r\n\r\n");
}

int truth_whole(struct truth *t, const struct truth_conn *c) {
    char body[512];
    int n =
        c->api == CHUNK_RESPONSES
            ? snprintf(body, sizeof body,
                       "{\"object\":\"response\",\"status\":\"completed\",\"output\":[{\"type\":"
                       "\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"w\"}]}],"
                       "\"usage\":{\"input_tokens\":8,\"output_tokens\":%d}}",
                       c->n_tokens)
            : snprintf(body, sizeof body,
                       "{\"id\":\"1\",\"object\":\"chat.completion\",\"model\":\"truth\","
                       "\"choices\":[{\"index\":0,%s,\"finish_reason\":\"length\"}],"
                       "\"usage\":{\"prompt_tokens\":8,\"completion_tokens\":%d}}",
                       c->api == CHUNK_CHAT
                           ? "\"message\":{\"role\":\"assistant\",\"content\":\"w\"}"
                           : "\"text\":\"w\"",
                       c->n_tokens);
    return buf_fmt(&t->frame,
                   "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                   "%s",
                   n, body);
}

static const char stream_head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                                  "Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n";

int truth_role(struct truth *t, const struct truth_conn *c) {
    int rc = buf_str(&t->frame, stream_head);
    if (!rc && c->api == CHUNK_CHAT) {
        rc = frame_event(t,
                         "\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":"
                         "\"\"}}]",
                         c->record);
    }
    return rc;
}
