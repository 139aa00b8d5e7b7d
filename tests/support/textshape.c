#include "tests/support/textshape.h"

#include "engine/base/rng.h"

typedef int (*shape_fn)(struct rng *r, struct buf *b);

/* A word of one to four syllables; the rarer the longer, as in language. */
static int word(struct rng *r, struct buf *b) {
    static const char *const syllable[] = {"the", "in",  "er",  "an",  "re",  "on", "at",  "en",
                                           "ti",  "al",  "con", "per", "ma",  "no", "ly",  "ing",
                                           "ed",  "com", "sta", "qu",  "ver", "lo", "gra", "ph",
                                           "ou",  "de",  "mo",  "tr",  "ca",  "si", "be",  "ha"};
    int64_t n = 1 + rng_below(r, 4) * rng_below(r, 2);
    int rc = 0;
    for (int64_t i = 0; i < n && !rc; i++) {
        int64_t k = rng_below(r, ARRAY_LEN(syllable));
        rc = buf_str(b, syllable[k * rng_below(r, 3) / 2]);
    }
    return rc;
}

static int prose(struct rng *r, struct buf *b) {
    static const char *const behind[] = {" ", " ", " ", " ", " ", " ", ", ", ". ", " '", ".\n"};
    int rc = word(r, b);
    return rc ? rc : buf_str(b, behind[rng_below(r, ARRAY_LEN(behind))]);
}

static int code(struct rng *r, struct buf *b) {
    int64_t x = rng_below(r, 1000);
    int64_t y = rng_below(r, 1 << 20);
    switch (rng_below(r, 4)) {
    case 0:
        return buf_fmt(b, "    if (x->n_%lld == 0x%llx) {\n", (long long)x, (long long)y);
    case 1:
        return buf_fmt(b, "        return foo_%lld(bar[%lld], NULL);\n", (long long)x,
                       (long long)y);
    case 2:
        return buf_str(b, "    }\n\n");
    default:
        return buf_fmt(b, "\tfor (int i = %lld; i < %lld; ++i)\n", (long long)x, (long long)y);
    }
}

static int blanks(struct rng *r, struct buf *b) {
    (void)r;
    return buf_str(b, "                                ");
}

static int lines(struct rng *r, struct buf *b) {
    (void)r;
    return buf_str(b, "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n");
}

static int letter_a(struct rng *r, struct buf *b) {
    (void)r;
    return buf_str(b, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
}

static int ab(struct rng *r, struct buf *b) {
    (void)r;
    return buf_str(b, "abababababababababababababababab");
}

static int letters(struct rng *r, struct buf *b) {
    char c = (char)('a' + rng_below(r, 26));
    return buf_add(b, &c, 1);
}

/* Words without anything between. */
static int glued(struct rng *r, struct buf *b) {
    return word(r, b);
}

static int digits(struct rng *r, struct buf *b) {
    char c = (char)('0' + rng_below(r, 10));
    return buf_add(b, &c, 1);
}

static int signs(struct rng *r, struct buf *b) {
    static const char all[] = "!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~";
    return buf_add(b, &all[rng_below(r, (int64_t)sizeof all - 1)], 1);
}

static int unicode(struct rng *r, struct buf *b) {
    static const uint32_t top[] = {0x80, 0x250, 0x3000, 0xd800, 0x20000};
    uint32_t cp = 0x20 + (uint32_t)rng_below(r, top[rng_below(r, ARRAY_LEN(top))] - 0x20);
    cp = cp >= 0xd800 && cp < 0xe000 ? 0x20 : cp;
    return buf_utf8(b, cp);
}

static int emoji(struct rng *r, struct buf *b) {
    int rc = buf_utf8(b, 0x1f300 + (uint32_t)rng_below(r, 0x250));
    return rc || rng_below(r, 4) ? rc : buf_utf8(b, 0x200d);
}

static int han(struct rng *r, struct buf *b) {
    uint32_t cp = 0x4e00 + (uint32_t)(rng_below(r, 150) * rng_below(r, 140));
    int rc = buf_utf8(b, cp);
    return rc || rng_below(r, 16) ? rc : buf_utf8(b, 0x3002);
}

static int marks(struct rng *r, struct buf *b) {
    (void)r;
    int rc = buf_str(b, "e");
    for (uint32_t i = 0; i < 8 && !rc; i++) {
        rc = buf_utf8(b, 0x300 + i * 5);
    }
    return rc;
}

static const struct {
    const char *name;
    shape_fn make;
} shapes[TEXTSHAPE_N] = {
    {"prose", prose},       {"code", code},   {"blanks", blanks},      {"lines", lines},
    {"letter a", letter_a}, {"ab", ab},       {"letters", letters},    {"glued words", glued},
    {"digits", digits},     {"signs", signs}, {"all planes", unicode}, {"emoji", emoji},
    {"han", han},           {"marks", marks},
};

const char *textshape_name(int32_t shape) {
    return shapes[shape].name;
}

int textshape_make(int32_t shape, int64_t n, struct buf *b) {
    struct rng r;
    int64_t end = b->len + n;
    int rc = 0;
    rng_init(&r, 11, (uint64_t)shape);
    while (b->len < end && !rc) {
        rc = shapes[shape].make(&r, b);
    }
    return rc;
}
