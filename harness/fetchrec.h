/* The record of a fetched folder: which source it came from, and what its files are. */
#ifndef HARNESS_FETCHREC_H
#define HARNESS_FETCHREC_H

#include "datasets/manifest.h"

struct fetchrec_file {
    char path[MANIFEST_TEXT_MAX]; /* below the folder */
    int64_t bytes;
    char sha256[FILE_SHA256_HEX];
};

struct fetchrec {
    enum manifest_type type;
    char label[MANIFEST_TEXT_MAX];
    int32_t n_files;
    struct fetchrec_file files[MANIFEST_FILES_MAX];
};

/* Writes "fetch.json" into dir. err: ERR_IO, ERR_NOMEM */
int fetchrec_write(const char *dir, const struct fetchrec *r);

/* Reads it. err: ERR_NOTFOUND no record there; ERR_FORMAT, ERR_LIMIT, ERR_IO, ERR_NOMEM */
int fetchrec_read(const char *dir, struct fetchrec *r);

/* Compares the folder with its record, and the record with the manifest's source of that type:
 * files there, of the recorded size, and of the hash that the manifest gives.
 * in:   verify: hashes the files, too
 * err:  ERR_CHECKSUM naming the first file that is not as recorded; ERR_IO, ERR_NOMEM
 * cost: one stat a file; with verify reads them all */
int fetchrec_check(const char *dir,
                   const struct fetchrec *r,
                   const struct manifest *m,
                   bool verify);

#endif
