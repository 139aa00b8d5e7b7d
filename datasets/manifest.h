/* Manifests: what a model or text is, where it is to be had, and how to know it is whole.
 *
 * The format is described in datasets/README.md; the reader is strict: an unknown key is refused.
 */
#ifndef DATASETS_MANIFEST_H
#define DATASETS_MANIFEST_H

#include "engine/base/file.h"
#include "engine/base/types.h"

enum {
    MANIFEST_NAME_MAX = 64,   /* bytes of a name, with the NUL */
    MANIFEST_TEXT_MAX = 256,  /* bytes of a title, label or path, with the NUL */
    MANIFEST_LABEL_MAX = 128, /* bytes of a text's label, with the NUL */
    MANIFEST_FILES_MAX = 32,  /* files of a source */
    MANIFEST_PATHS_MAX = 16,  /* installed files of a debian source */
    MANIFEST_SOURCES_MAX = 8,
};

enum manifest_kind { MANIFEST_MODEL, MANIFEST_TEXT };

/* Where a source is. */
enum manifest_type {
    MANIFEST_HUB,     /* files of a hub repository */
    MANIFEST_PIP,     /* one member of a wheel */
    MANIFEST_SHARED,  /* a file under TRILEMMA_DATA or TRILEMMA_SHARED */
    MANIFEST_HUB_ZIP, /* one member of a zip in a hub repository */
    MANIFEST_DEBIAN,  /* files that a Debian package installs, one behind the other */
    MANIFEST_TYPE_N
};

struct manifest_file {
    char path[MANIFEST_TEXT_MAX];
    int64_t size;                 /* bytes, -1: not known */
    char sha256[FILE_SHA256_HEX]; /* lower case; "": not known */
};

/* One place to get it from; which members are set depends on type. */
struct manifest_source {
    enum manifest_type type;
    char label[MANIFEST_TEXT_MAX]; /* the sentence for reports */
    bool dataset;                  /* HUB, HUB_ZIP: the repository holds a data set */
    char repo[MANIFEST_TEXT_MAX];
    char revision[MANIFEST_NAME_MAX];
    char package[MANIFEST_NAME_MAX]; /* PIP, DEBIAN */
    char version[MANIFEST_NAME_MAX]; /* PIP */
    char member[MANIFEST_TEXT_MAX];  /* PIP, HUB_ZIP */
    char shared[MANIFEST_TEXT_MAX];  /* SHARED: relative path */
    struct manifest_file archive;    /* HUB_ZIP */
    int32_t n_paths;                 /* DEBIAN */
    char paths[MANIFEST_PATHS_MAX][MANIFEST_TEXT_MAX];
    int32_t n_files; /* what lies in the folder afterwards; 1 for all types but HUB */
    struct manifest_file files[MANIFEST_FILES_MAX];
};

struct manifest {
    char name[MANIFEST_NAME_MAX];
    enum manifest_kind kind;
    char title[MANIFEST_TEXT_MAX];
    char licence[MANIFEST_TEXT_MAX];
    int32_t n_sources; /* 1..MANIFEST_SOURCES_MAX, in order of preference */
    struct manifest_source sources[MANIFEST_SOURCES_MAX];
};

/* Reads a manifest from memory; where names it in errors / from a file whose name is
 * "<name>.json".
 * err: ERR_FORMAT naming where and key (unknown key, missing key, bad hash, path that leaves the
 *      folder, name that is not the file's), ERR_LIMIT, ERR_NOTFOUND, ERR_IO, ERR_NOMEM
 * own: caller, manifest_destroy */
int manifest_parse(const char *where, const char *text, int64_t n, struct manifest **out);
int manifest_read(const char *path, struct manifest **out);
void manifest_destroy(struct manifest *m);

/* True for 1..63 of a-z 0-9 . -, not beginning with a dot or dash. */
bool manifest_name_ok(const char *name);

/* True for a relative path of A-Z a-z 0-9 . _ - + / whose parts are neither empty nor begin with a
 * dot or dash: safe to join to a folder, in a URL, and as an argument of a program. */
bool manifest_path_ok(const char *path);

/* True for 64 lower-case hexadecimal digits. */
bool manifest_sha256_ok(const char *hex);

/* "hub", "pip", "shared", "hub-zip", "debian". */
const char *manifest_type_name(enum manifest_type t);

#endif
