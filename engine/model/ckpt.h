/* A checkpoint: one directory of tensors over any container, and its configuration.
 *
 * The arrow "checkpoint" of the chain: made by ckpt_open, taken by weights_load. Everything is
 * memory-mapped; tensors point into the maps until ckpt_close. */
#ifndef ENGINE_MODEL_CKPT_H
#define ENGINE_MODEL_CKPT_H

#include <jansson.h>

#include "engine/base/file.h"
#include "engine/model/gguf.h"
#include "engine/model/tensor.h"

enum ckpt_kind {
    CKPT_HF,   /* folder: config.json, model.safetensors or shards with index */
    CKPT_GGUF, /* one .gguf file or the parts of a split one, or a folder that holds just that */
};

enum { CKPT_FILES_MAX = 1024, CKPT_NAME_MAX = 256 };

struct ckpt {
    enum ckpt_kind kind;
    char path[FILE_PATH_MAX]; /* as opened; for GGUF the file itself, of a split one the first */
    char file[CKPT_FILES_MAX][CKPT_NAME_MAX]; /* base names of the mapped files */
    struct filemap map[CKPT_FILES_MAX];
    int32_t n_file;
    int64_t file_bytes;    /* sum of the mapped files */
    struct tensor_dir dir; /* own for HF; a view of gguf->dir for GGUF */
    json_t *config;        /* own, config.json; NULL for GGUF */
    struct gguf *gguf;     /* own; NULL for HF */
};

/* Opens a checkpoint folder or file.
 * err:  ERR_NOTFOUND (path, config.json, a shard), ERR_EOF, ERR_FORMAT, ERR_UNSUPPORTED, ERR_NOMEM
 * own:  caller, ckpt_close
 * cost: maps the files; reads headers only */
int ckpt_open(const char *path, struct ckpt **out);
void ckpt_close(struct ckpt *c);

/* The tensor of that name, or NULL. */
const struct tensor *ckpt_find(const struct ckpt *c, const char *name);

/* SHA-256 over the mapped files' contents in name order. cost: reads all bytes */
int ckpt_sha256(const struct ckpt *c, char hex[FILE_SHA256_HEX]);

#endif
