/* What utf8.c takes from its tables. Not for other folders. */
#ifndef ENGINE_TEXT_UTF8_INT_H
#define ENGINE_TEXT_UTF8_INT_H

#include "engine/base/types.h"

/* True for characters that NFC leaves alone and that never combine with what stands before them
 * (they may combine with a mark behind them). */
bool utf8_nfc_plain(uint32_t cp);

#endif
