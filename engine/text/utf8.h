/* UTF-8 read with suspicion, the character classes of Unicode, and normal forms.
 *
 * A text that came from outside is checked once; everything behind the check may rely on it. */
#ifndef ENGINE_TEXT_UTF8_H
#define ENGINE_TEXT_UTF8_H

#include "engine/base/buf.h"

enum { UTF8_REPLACEMENT = 0xfffd };

/* Reads one character.
 * in:   n >= 1 bytes at p
 * out:  its length 1..4 and *cp; 0 when all n bytes are the start of a longer character;
 *       -k when k bytes (1..3) are the longest start of any character and the next one is wrong
 * src:  The Unicode Standard 15.0, table 3-7 and section 3.9 (maximal subparts) */
int32_t utf8_next(const uint8_t *p, int64_t n, uint32_t *cp);

/* Reads one character of text known to be valid. out: its length, *cp */
int32_t utf8_get(const uint8_t *p, uint32_t *cp);

/* Number of bytes before the first that is no UTF-8; n when all is well. */
int64_t utf8_valid(const uint8_t *p, int64_t n);

/* Number of characters in n bytes of valid text. */
int64_t utf8_count(const uint8_t *p, int64_t n);

/* Appends p to out; each maximal broken part becomes one U+FFFD, as in Python's and Rust's
 * "replace". err: ERR_LIMIT, ERR_NOMEM */
int utf8_repair(const uint8_t *p, int64_t n, struct buf *out);

/* Classes. digit: Nd. number: Nd, Nl, No. space: White_Space. word: Alphabetic, M, Nd, Pc, joiners
 * (\w of UTS #18). punct: P* and the ASCII signs that C calls punctuation. */
bool utf8_is_digit(uint32_t cp);
bool utf8_is_number(uint32_t cp);
bool utf8_is_space(uint32_t cp);
bool utf8_is_word(uint32_t cp);
bool utf8_is_punct(uint32_t cp);
bool utf8_is_letter(uint32_t cp);
bool utf8_is_upper(uint32_t cp); /* Lu, Lt */
bool utf8_is_lower(uint32_t cp);

/* Simple case mappings. */
uint32_t utf8_upper(uint32_t cp);
uint32_t utf8_lower(uint32_t cp);
uint32_t utf8_title(uint32_t cp);

/* Normal forms of UAX #15. */
enum utf8_form { UTF8_NFC, UTF8_NFD, UTF8_NFKC, UTF8_NFKD };

/* Appends the normal form of n bytes of valid text to out.
 * err:  ERR_LIMIT, ERR_NOMEM
 * cost: linear also for long runs of combining marks; NFC copies stretches of common scripts */
int utf8_normalize(enum utf8_form form, const uint8_t *p, int64_t n, struct buf *out);

#endif
