/* Glue between a GGUF container's metadata and the tokenizer. */
#ifndef ENGINE_RUN_TOKSOURCE_H
#define ENGINE_RUN_TOKSOURCE_H

#include "engine/model/gguf.h"
#include "engine/text/tok.h"

/* Makes the tokenizer that a GGUF file describes (tokenizer.ggml.*).
 * err: ERR_NOTFOUND when it has none; ERR_FORMAT; ERR_UNSUPPORTED naming model or pre-tokenizer.
 * own: caller, tok_destroy */
int toksource_gguf(const struct gguf *g, struct tok **out);

/* Opens a tokenizer at path: a .gguf file (also one with a vocabulary alone), a folder that holds
 * one, or anything that tok_open reads. own: caller, tok_destroy */
int toksource_open(const char *path, struct tok **out);

#endif
