/* Answers as servers really give them, good and broken, made on demand: what bytes, how the
 * connection ends, and what a client has to make of it. */
#ifndef HARNESS_CORPUS_H
#define HARNESS_CORPUS_H

#include "harness/reply.h"

enum { CORPUS_NAME_MAX = 96, CORPUS_BODY_MAX = 1 << 16, CORPUS_HEAD_MAX = 256 };

enum corpus_end {
    CORPUS_CLEAN, /* the body ends as HTTP wants it; the connection is kept */
    CORPUS_CLOSE, /* the body ends as HTTP wants it; then the connection is closed */
    CORPUS_FIN,   /* the connection is closed inside the body */
    CORPUS_RST,   /* the connection is reset inside the body */
    CORPUS_STALL  /* nothing more comes */
};

struct corpus_case {
    char name[CORPUS_NAME_MAX]; /* letters, digits, - and _ */
    enum chunk_api api;
    bool stream;
    int32_t status;             /* 0: the end comes instead of an answer */
    char type[CORPUS_HEAD_MAX]; /* Content-Type; "": none */
    char head[CORPUS_HEAD_MAX]; /* more header lines, each with CRLF */
    struct buf body;            /* own */
    enum corpus_end end;
    enum reply_class want;
    struct buf text; /* own: what the tokens say, all channels in order */
    int32_t n_tokens;
};

/* Number of cases, at least 200. */
int32_t corpus_n(void);

/* Makes case i. err: ERR_NOMEM, ERR_LIMIT. own: caller, corpus_fini */
int corpus_make(int32_t i, struct corpus_case *c);
void corpus_fini(struct corpus_case *c);

/* The case of that name, or of that number in digits; -1: none. */
int32_t corpus_find(const char *name);

/* What a clean client makes of the body when the transfer ends as the case says: feeds cut into
 * pieces at the n_cut ascending offsets. out: class, text (initialised by the caller), tokens.
 * err: ERR_NOMEM */
int corpus_read(const struct corpus_case *c,
                const int64_t *cut,
                int32_t n_cut,
                struct reply *r,
                struct buf *text);

#endif
