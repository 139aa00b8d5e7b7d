"""Writes engine/text/utf8_tab.c: the characters that NFC leaves alone wherever they stand.

usage: python3 make_nfc.py >engine/text/utf8_tab.c      (unicodedata of the running Python)
"""
import unicodedata as u

TOP = 0x110000


def plain(cp):
    if 0xD800 <= cp < 0xE000:
        return False
    c = chr(cp)
    if u.category(c) == "Cn" or u.combining(c) or u.normalize("NFC", c) != c:
        return False
    return cp not in SECOND


SECOND = set()
for cp in range(TOP):
    d = u.decomposition(chr(cp)).split()
    if len(d) == 2 and not d[0].startswith("<"):
        SECOND.add(int(d[1], 16))
SECOND |= set(range(0x1161, 0x1176)) | set(range(0x11A7, 0x11C3))  # Hangul vowels and finals

words = [sum(plain(64 * i + b) << b for b in range(64)) for i in range(1024)]
ranges = []
for cp in range(0x10000, TOP):
    if plain(cp):
        if ranges and ranges[-1][1] == cp - 1:
            ranges[-1][1] = cp
        else:
            ranges.append([cp, cp])

print(f"""/* Characters that are their own NFC, have combining class 0, and never join what stands before them
 * (NFC_Quick_Check Yes, class 0), as of Unicode {u.unidata_version}: bits for the lowest 65,536, ranges
 * above. Unassigned characters are left out.
 *
 * Made by tests/golden/make_nfc.py; data of Unicode, Inc., Unicode License v3. src: UAX #15 */
#include "engine/text/utf8_int.h"

#include "engine/base/types.h"

static const uint64_t low[1024] = {{""")
for i in range(0, 1024, 4):
    print("    " + ", ".join(f"0x{w:016x}U" for w in words[i : i + 4]) + ",")
print("""};

static const uint32_t high[][2] = {""")
for i in range(0, len(ranges), 4):
    print("    " + ", ".join(f"{{0x{a:x}, 0x{b:x}}}" for a, b in ranges[i : i + 4]) + ",")
print("""};

bool utf8_nfc_plain(uint32_t cp) {
    if (cp < 0x10000) {
        return low[cp >> 6] >> (cp & 63) & 1;
    }
    int32_t lo = 0;
    int32_t hi = ARRAY_LEN(high);
    while (hi - lo > 1) {
        int32_t mid = (lo + hi) / 2;
        if (high[mid][0] <= cp) {
            lo = mid;
        } else {
            hi = mid;
        }
    }
    return cp >= high[lo][0] && cp <= high[lo][1];
}""")
