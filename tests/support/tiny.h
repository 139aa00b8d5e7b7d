/* A whole model in a folder, made of committed data alone: the golden llama with random weights, a
 * byte-level tokenizer, a chat template; and a text. */
#ifndef TESTS_SUPPORT_TINY_H
#define TESTS_SUPPORT_TINY_H

#include "tests/support/support.h"

enum { TINY_VOCAB = 384, TINY_TEXT_LINES = 300 };

/* Makes dir/name with model.safetensors, config.json (with ctx tokens of context, at least 512),
 * generation_config.json, tokenizer.json, tokenizer_config.json. */
void tiny_model(const char *dir, const char *name, int32_t ctx);

/* Makes dir/name: lines of English words, the same on every machine. */
void tiny_text(const char *dir, const char *name, int32_t n_lines);

/* Writes a file of text. */
void tiny_file(const char *dir, const char *name, const char *text);

/* Copies a file with n bytes at an offset replaced (n 0: none), cut to size bytes (-1: not cut). */
void tiny_copy(
    const char *from, const char *to, int64_t at, const void *bytes, int64_t n, int64_t size);

/* A file of dir as a JSON list of n ids, i * 7 % vocab. */
void tiny_ids(const char *dir, const char *name, int32_t n, int32_t vocab);

#endif
