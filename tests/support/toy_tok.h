/* Small vocabularies for tests that need no files. */
#ifndef TESTS_SUPPORT_TOY_TOK_H
#define TESTS_SUPPORT_TOY_TOK_H

#include "engine/text/tok.h"

/* Appends a tokenizer.json: all 256 bytes, merges up to "hello", a special <|end|>, GPT-2's
 * pattern, NFC. Ids: byte b in the order of GPT-2's alphabet is 0..255, merges 256.., <|end|> the
 * last. */
void toy_json(struct buf *b);

/* A character vocabulary with scores and byte fallback: <unk> <s> </s>, bytes <0x00>.. at 3, then
 * pieces "_", "a", "b", "ab", "_ab" (with U+2581 for "_"). own: caller, tok_destroy */
struct tok *toy_spm(void);

#endif
