/* The unfinished file of a download: "<path>.part" with its identity in "<path>.part.etag". */
#ifndef HARNESS_HUBPART_H
#define HARNESS_HUBPART_H

#include "engine/base/file.h"

enum { HUBPART_ETAG_MAX = 256 };

struct hubpart {
    int fd;       /* own, locked; -1: closed */
    int64_t size; /* bytes that are in the file */
    char path[FILE_PATH_MAX];
    char part[FILE_PATH_MAX];
    char etag_path[FILE_PATH_MAX];
    char
        etag[HUBPART_ETAG_MAX]; /* strong entity tag of the bytes, with its quotes; "": not known */
};

/* Opens or makes the unfinished file of path and locks it.
 * out: size and etag of what an earlier call left
 * err: ERR_BUSY when another process holds it, ERR_IO, ERR_LIMIT. own: caller, hubpart_close */
int hubpart_open(struct hubpart *p, const char *path);

/* Keeps what was written for a later call; removes an empty file. */
void hubpart_close(struct hubpart *p);

/* Throws the bytes away and notes the tag of those that will come. in: etag "": none. err: ERR_IO
 */
int hubpart_restart(struct hubpart *p, const char *etag);

/* Appends. err: ERR_IO (also disk full); what was written is kept */
int hubpart_write(struct hubpart *p, const void *data, int64_t n);

/* Checks the SHA-256 and gives the file its final name; p is closed then.
 * in:   want 64 digits, "": not known
 * out:  sha256 of the file
 * err:  ERR_CHECKSUM, the bytes removed; ERR_IO, ERR_NOMEM, the bytes kept
 * cost: reads the file once */
int hubpart_finish(struct hubpart *p, const char *want, char sha256[FILE_SHA256_HEX]);

#endif
