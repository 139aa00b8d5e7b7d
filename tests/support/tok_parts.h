/* The tokenizers of tests/golden/data/tokenizers/parts, by the name of their case. */
#ifndef TESTS_SUPPORT_TOK_PARTS_H
#define TESTS_SUPPORT_TOK_PARTS_H

#include "engine/base/json.h"
#include "engine/text/tok.h"

/* A file of the folder as JSON; fails the test when it cannot be read. own: caller, json_decref */
json_t *tok_parts_json(const char *name);

/* Makes the tokenizer of one case out of its line and models.json. own: caller, tok_destroy */
struct tok *tok_parts_make(const json_t *models, json_t *line);

/* The same by the case's name. */
struct tok *tok_parts_open(const char *name);

#endif
