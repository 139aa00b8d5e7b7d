"""Makes tests/golden/data/tokenizers/parts: every part of a tokenizer.json on its own, and small
SentencePiece models, with what tokenizers and sentencepiece say.

usage: python3 make_tok_parts.py TEXT OUT_DIR
       (tokenizers 0.23.3, sentencepiece 0.2.3; TEXT: any English text, some thousand lines)

models.json   the models that the cases share, as they stand in a tokenizer.json
texts.json    the texts
pool.json     texts: decoded ones, and lists of ids
cases.jsonl   {"name", "model", "normalizer", ..., "rows": [[ids, ids with special tokens, decoded,
              decoded without special tokens] or null where tokenizers fails, one for each text]},
              each a place in the pool
spm_*.model   with spm_*.json: [[ids, decoded], ...] for each text, by sentencepiece
"""
import base64
import io
import json
import os
import random
import sys
import unicodedata

import sentencepiece
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

text_path, out = sys.argv[1:3]
os.makedirs(out, exist_ok=True)
lines = [l.strip() for l in open(text_path, encoding="utf-8") if l.strip()][:3000]
rng = random.Random(5)

# Characters that Unicode 3.2 knew: no table of a library is older.
OLD = [c for c in map(chr, range(0x20, 0x30000)) if unicodedata.ucd_3_2_0.category(c)[0] not in "C"]
PLANES = [[c for c in OLD if lo <= ord(c) < hi]
          for lo, hi in ((0x20, 0x7F), (0x80, 0x300), (0x300, 0x370), (0x370, 0x2000), (0x2000, 0x3100),
                         (0x3100, 0xFFFF), (0x10000, 0x30000))]


def noise():
    return "".join(rng.choice(rng.choice(PLANES) if rng.random() < 0.6 else "ab cd \n\t1.'-")
                   for _ in range(rng.randrange(1, 20)))


TEXTS = [
    "", " ", "Hello world", "  Hello   World  ", "Hello, world! It's 2024.\n", "the<m>cat", "the <m> cat",
    "a<s>b</s> c", "<s> hello </s>", "café naïve Ångström", "cafe\u0301 A\u030a o\u0323\u0302", "ﬁ ﬂ ① Ⅷ ㎏ ½ Å",
    "你好，世界。こんにちは カタカナ ー 안녕", "Привет мир, ΑΒΓς ABΣ", "İstanbul ıI ŞŠ ß ẞ", "tab\tnew\nline\r\n  x",
    "a\u00a0b\u2003c\u3000d\u200be\u2028f", "foo--bar-baz_qux", "don't WON'T we'll I'Ve 'S", "123 4567 12345678 12345a 1234567. 12_ ٣٤٥٦ ²³ ⅓",
    "🙂🙂 👩‍👩‍👧 🇩🇪 e\u0301\u0327\u0328", "▁the▁cat ▁ x", "<0x41> <0xe4>", "ab\x00\x01\x7f\x1fcd\ufeff\ufffd",
    "Day day DAY monday", "x[DAY]y [day] z", "foofoo foo bfoo foob", "aaaaaaaaaaaaaaaaaaaaaaaaa", "()[]{}<>!?;:\"",
    "   leading and trailing   ", "שלום עולם مرحبا", "हिन्दी ไทย ქართული",
    "  \n\n  a \n b\t\t", "the the the  the", "unbelievable tokenization transformers",
] + [noise() for _ in range(16)]

small = io.StringIO("\n".join(lines))


def train(model, trainer, pre=None):
    t = Tokenizer(model)
    if pre:
        t.pre_tokenizer = pre
    t.train_from_iterator(lines, trainer)
    return json.loads(t.to_str())["model"]


BYTE = train(models.BPE(), trainers.BpeTrainer(vocab_size=420, show_progress=False,
             initial_alphabet=pre_tokenizers.ByteLevel.alphabet()), pre_tokenizers.ByteLevel(add_prefix_space=False))
MARK = pre_tokenizers.Metaspace()
CHAR = train(models.BPE(unk_token="<unk>", fuse_unk=True), trainers.BpeTrainer(
    vocab_size=330, show_progress=False, limit_alphabet=70, special_tokens=["<unk>", "<s>", "</s>"]), MARK)
FALL = json.loads(json.dumps(CHAR))
for b in range(256):
    FALL["vocab"][f"<0x{b:02X}>"] = len(FALL["vocab"])
FALL["byte_fallback"] = True
WORD = train(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##", end_of_word_suffix="</w>"),
             trainers.BpeTrainer(vocab_size=330, show_progress=False, limit_alphabet=60, special_tokens=["[UNK]"],
                                 continuing_subword_prefix="##", end_of_word_suffix="</w>"),
             pre_tokenizers.Whitespace())
UNI = train(models.Unigram(), trainers.UnigramTrainer(vocab_size=330, show_progress=False, unk_token="<unk>",
                                                      special_tokens=["<unk>", "<s>", "</s>"]), MARK)
UNIFALL = json.loads(json.dumps(UNI))
UNIFALL["vocab"] += [[f"<0x{b:02X}>", -20.0] for b in range(256)]
UNIFALL["byte_fallback"] = True
IGNORE = dict(BYTE, ignore_merges=True)
NOFUSE = dict(CHAR, fuse_unk=False)
NOUNK = {k: v for k, v in CHAR.items()}
NOUNK["unk_token"] = None
MODELS = {"byte": BYTE, "char": CHAR, "fall": FALL, "word": WORD, "unigram": UNI, "unifall": UNIFALL,
          "nofuse": NOFUSE, "nounk": NOUNK, "ignore": IGNORE}

RULES = "\n".join(["41\t61", "42\t62", "FB01\t66 69", "2460\t31", "33CF\t6B 67", "E9\t65 301", "65 301\tE9",
                   "61 62 63\t78", "3000\t20", "A0\t20", "9\t20", "A\t20", "AD\t", "2163\t49 56", "31 32\t33"])
open(os.path.join(out, "rules.tsv"), "w").write(RULES + "\n")


def spm(name, **kw):
    buf = io.BytesIO()
    args = dict(sentence_iterator=iter(lines), model_writer=buf, vocab_size=420, hard_vocab_limit=False,
                normalization_rule_tsv=os.path.join(out, "rules.tsv"), minloglevel=2)
    args.update(kw)
    sentencepiece.SentencePieceTrainer.train(**args)
    open(os.path.join(out, name + ".model"), "wb").write(buf.getvalue())
    p = sentencepiece.SentencePieceProcessor(model_proto=buf.getvalue())
    rows = []
    for t in TEXTS:
        ids = p.encode(t)
        rows.append([ids, p.decode(ids)])
    json.dump(rows, open(os.path.join(out, name + ".json"), "w"), separators=(",", ":"), ensure_ascii=True)
    return buf.getvalue()


spm("spm_bpe", model_type="bpe", byte_fallback=True, vocab_size=600, character_coverage=0.99)
spm("spm_bpe_user", model_type="bpe", user_defined_symbols=["<m>", "  ", "Hello", "ABC"], character_coverage=0.98,
    remove_extra_whitespaces=False)
blob = spm("spm_unigram", model_type="unigram", character_coverage=0.99)
spm("spm_unigram_user", model_type="unigram", byte_fallback=True, vocab_size=600, add_dummy_prefix=False,
    user_defined_symbols=["<m>", "the ", "DAY"])
spm("spm_suffix", model_type="unigram", treat_whitespace_as_suffix=True)


def charsmap(model):
    """Field 2 of field 3 of the model."""
    def fields(b):
        i = 0
        while i < len(b):
            def num():
                nonlocal i
                v = s = 0
                while True:
                    c = b[i]
                    i += 1
                    v |= (c & 127) << s
                    s += 7
                    if c < 128:
                        return v
            k = num()
            if k & 7 == 2:
                n = num()
                yield k >> 3, b[i:i + n]
                i += n
            elif k & 7 == 5:
                i += 4
            else:
                num()
    spec = [v for k, v in fields(model) if k == 3][0]
    return base64.b64encode([v for k, v in fields(spec) if k == 2][0]).decode()


def seq(kind, *parts):
    key = {"normalizer": "normalizers", "pre": "pretokenizers", "post": "processors", "decoder": "decoders"}[kind]
    return {"type": "Sequence", key: list(parts)}


def T(name, **kw):
    return {"type": name, **kw}


def added(text, id=None, **kw):
    return {"id": id, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": False, **kw}


BL = T("ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
META = T("Metaspace", replacement="▁", prepend_scheme="always", split=True)
LLAMA_NORM = seq("normalizer", T("Prepend", prepend="▁"), T("Replace", pattern={"String": " "}, content="▁"))
LLAMA_DEC = seq("decoder", T("Replace", pattern={"String": "▁"}, content=" "), T("ByteFallback"), T("Fuse"),
                T("Strip", content=" ", start=1, stop=0))
CASES = []


def case(name, model, **kw):
    CASES.append({"name": name, "model": model, **kw})


NORMS = {
    "nfc": T("NFC"), "nfd": T("NFD"), "nfkc": T("NFKC"), "nfkd": T("NFKD"), "lower": T("Lowercase"),
    "strip": T("Strip", strip_left=True, strip_right=True), "strip_left": T("Strip", strip_left=True, strip_right=False),
    "accents": seq("normalizer", T("NFD"), T("StripAccents")), "nmt": T("Nmt"),
    "replace": T("Replace", pattern={"String": "the"}, content="THE"),
    "replace_regex": T("Replace", pattern={"Regex": "\\s+|[0-9]+"}, content=" "),
    "prepend": T("Prepend", prepend="x "), "bert": T("BertNormalizer", clean_text=True, handle_chinese_chars=True,
                                                     strip_accents=None, lowercase=True),
    "bert_plain": T("BertNormalizer", clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False),
    "charsmap": T("Precompiled", precompiled_charsmap=charsmap(blob)),
    "sequence": seq("normalizer", T("NFKC"), seq("normalizer", T("Lowercase"), T("Strip", strip_left=True, strip_right=False))),
}
for k, v in NORMS.items():
    case("norm_" + k, "byte", normalizer=v, pre_tokenizer=BL, decoder=T("ByteLevel", add_prefix_space=True,
                                                                        trim_offsets=True, use_regex=True))
# tokenizers 0.23.3 doubles the first match of an empty text when ByteLevel follows, so not with "byte"
case("norm_replace_empty", "fall", normalizer=T("Replace", pattern={"Regex": "o*"}, content="-"), decoder=T("Fuse"))
case("norm_bytes", "byte", normalizer=T("ByteLevel"), decoder=BL)

B = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
PRES = {"whitespace": T("Whitespace"), "whitespace_split": T("WhitespaceSplit"), "bert": T("BertPreTokenizer"),
        "digits": T("Digits", individual_digits=False), "digits_one": T("Digits", individual_digits=True),
        "scripts": T("UnicodeScripts"), "delimiter": T("CharDelimiterSplit", delimiter="a"),
        "length": T("FixedLength", length=3), "none": None,
        "sequence": seq("pre", T("WhitespaceSplit"), T("Punctuation", behavior="Isolated"), T("Digits", individual_digits=True))}
for b in B:
    PRES["punct_" + b] = T("Punctuation", behavior=b)
    for inv in (False, True):
        PRES[f"string_{b}_{inv}"] = T("Split", pattern={"String": "a"}, behavior=b, invert=inv)
        PRES[f"regex_{b}_{inv}"] = T("Split", pattern={"Regex": "\\s|[A-Z]+|e*"}, behavior=b, invert=inv)
for k, v in PRES.items():
    case("pre_" + k, "fall", pre_tokenizer=v, decoder=T("Fuse"))
for scheme in ("always", "first", "never"):
    for split in (True, False):
        m = T("Metaspace", replacement="▁", prepend_scheme=scheme, split=split)
        case(f"meta_{scheme}_{split}", "char", pre_tokenizer=m, decoder=m, added_tokens=[added("<m>")])
case("meta_other", "char", pre_tokenizer=T("Metaspace", replacement="_", prepend_scheme="always", split=True),
     decoder=T("Metaspace", replacement="_", prepend_scheme="always", split=True))
PATTERNS = {
    "llama3": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "qwen2": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "o200k": "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "words": "\\w+|\\W", "groups": "\\d{1,3}(?=(?:\\d{3})*\\b)", "line_end": "\\s+$", "lookbehind": "(?<=[a-z])(?=[A-Z ])", "possessive": "[^\\s]?+\\p{L}++|\\s",
}
for k, v in PATTERNS.items():
    case("pattern_" + k, "byte", pre_tokenizer=seq("pre", T("Split", pattern={"Regex": v}, behavior="Isolated", invert=False),
         T("ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=False)), decoder=BL)
case("bytes_prefix", "byte", pre_tokenizer=T("ByteLevel", add_prefix_space=True, trim_offsets=True, use_regex=True), decoder=BL)
case("bytes_then_split", "byte", pre_tokenizer=seq("pre", BL, T("Split", pattern={"String": "e"}, behavior="Isolated", invert=False)), decoder=BL)
case("bytes_ignore", "ignore", pre_tokenizer=BL, decoder=BL)
case("bytes_unigram", "unigram", pre_tokenizer=BL, decoder=BL)
case("digits_bytes", "byte", pre_tokenizer=seq("pre", T("Digits", individual_digits=True), BL), decoder=BL)

for m in ("char", "fall", "unigram", "unifall", "nofuse", "nounk"):
    case("llama_" + m, m, normalizer=LLAMA_NORM, decoder=LLAMA_DEC)
    case("marks_" + m, m, pre_tokenizer=META, decoder=META)
case("word", "word", pre_tokenizer=T("Whitespace"), decoder=T("BPEDecoder", suffix="</w>"))
case("word_split", "word", pre_tokenizer=T("WhitespaceSplit"), decoder=T("BPEDecoder", suffix="</w>"))
case("xlm", "unigram", normalizer=seq("normalizer", T("Precompiled", precompiled_charsmap=charsmap(blob)),
     T("Replace", pattern={"Regex": " {2,}"}, content=" ")), pre_tokenizer=seq("pre", T("WhitespaceSplit"), META), decoder=META,
     post_processor=T("TemplateProcessing", single=[{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
     {"SpecialToken": {"id": "</s>", "type_id": 0}}], pair=[{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
     special_tokens={"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}, "</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}),
     added_tokens=[added("<unk>", special=True), added("<s>", special=True), added("</s>", special=True)])

DECS = {
    "none": None, "fuse": T("Fuse"), "meta": META, "fallback": T("ByteFallback"),
    "fallback_fuse_strip": seq("decoder", T("ByteFallback"), T("Fuse"), T("Strip", content="▁", start=2, stop=1)),
    "strip_each": T("Strip", content="▁", start=1, stop=0), "strip_both": T("Strip", content="e", start=1, stop=1),
    "replace_regex": T("Replace", pattern={"Regex": "[aeiou]"}, content="*"),
    "replace_after_fuse": seq("decoder", T("Fuse"), T("Replace", pattern={"String": "▁t"}, content=" T")),
    "regex_after_fuse": seq("decoder", T("Fuse"), T("Replace", pattern={"Regex": "▁+"}, content=" ")),
    "suffix": T("BPEDecoder", suffix="e"), "suffix_after_fuse": seq("decoder", T("Fuse"), T("BPEDecoder", suffix="e")),
    "fallback_meta": seq("decoder", T("ByteFallback"), META), "meta_fuse": seq("decoder", META, T("Fuse")),
    "fuse_meta": seq("decoder", T("Fuse"), META), "bytes": BL, "fuse_bytes": seq("decoder", T("Fuse"), BL),
    "replace_fallback_bytes": seq("decoder", T("Replace", pattern={"String": "▁"}, content=" "), T("ByteFallback"), BL),
    "fuse_fallback": seq("decoder", T("Fuse"), T("ByteFallback")),
}
for k, v in DECS.items():
    case("dec_" + k, "fall", normalizer=LLAMA_NORM, decoder=v)

ADDED = {
    "plain": [added("<m>"), added("foo"), added("day")],
    "special": [added("<s>", special=True), added("</s>", special=True), added("<m>", special=True)],
    "single": [added("foo", single_word=True), added("day", single_word=True), added("the", single_word=True)],
    "lstrip": [added("<m>", lstrip=True), added("</s>", lstrip=True, special=True), added("b", lstrip=True)],
    "rstrip": [added("<m>", rstrip=True), added("<s>", rstrip=True, special=True), added("a", rstrip=True)],
    "both": [added("<m>", rstrip=True, lstrip=True), added(" ", rstrip=True, lstrip=True)],
    "normalized": [added("day", normalized=True), added("[DAY]"), added("<M>", normalized=True), added("the", normalized=True)],
    "longest": [added("fo"), added("foo"), added("foofoo"), added("foob"), added("<"), added("<m>")],
    "unicode": [added("é"), added("世界", single_word=True), added("\u3000", lstrip=True)],
}
for k, v in ADDED.items():
    for norm in (None, T("Lowercase"), LLAMA_NORM):
        tag = "none" if norm is None else "lower" if norm["type"] == "Lowercase" else "llama"
        case(f"added_{k}_{tag}", "fall", normalizer=norm, added_tokens=v, decoder=LLAMA_DEC)

POSTS = {
    "bert": T("BertProcessing", sep=["</s>", 2], cls=["<s>", 1]),
    "roberta": T("RobertaProcessing", sep=["</s>", 2], cls=["<s>", 1], trim_offsets=True, add_prefix_space=True),
    "sequence": seq("post", BL, T("BertProcessing", sep=["</s>", 2], cls=["<s>", 1]), T("BertProcessing", sep=["<unk>", 0], cls=["</s>", 2])),
}
for k, v in POSTS.items():
    case("post_" + k, "fall", post_processor=v, pre_tokenizer=META, decoder=META)

POOL = {}


def pool(x):
    """Many results are the same: rows hold places in pool.json, where ids are written as text."""
    key = " ".join(map(str, x)) if isinstance(x, list) else x
    return POOL.setdefault(key, len(POOL))


for c in CASES:
    model = MODELS[c["model"]]
    n = len(model["vocab"])
    vocab = dict(model["vocab"]) if isinstance(model["vocab"], dict) else {t: i for i, (t, _) in enumerate(model["vocab"])}
    for a in c.get("added_tokens", []):
        a["id"] = vocab.get(a["content"], n)
        n += a["content"] not in vocab
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": c.get("added_tokens", []),
             "normalizer": c.get("normalizer"), "pre_tokenizer": c.get("pre_tokenizer"),
             "post_processor": c.get("post_processor"), "decoder": c.get("decoder"), "model": model}
    t = Tokenizer.from_str(json.dumps(whole))
    c["rows"] = []
    for text in TEXTS:
        try:
            ids = t.encode(text, add_special_tokens=False).ids
            c["rows"].append([ids, t.encode(text).ids, t.decode(ids, skip_special_tokens=False), t.decode(ids)])
        except BaseException as e:  # a panic of the library
            c["rows"].append(None)
    c["rows"] = [r and [pool(x) for x in r] for r in c["rows"]]

json.dump(list(POOL), open(os.path.join(out, "pool.json"), "w"), separators=(",", ":"), ensure_ascii=False)
json.dump(MODELS, open(os.path.join(out, "models.json"), "w"), separators=(",", ":"))
json.dump(TEXTS, open(os.path.join(out, "texts.json"), "w"), separators=(",", ":"))
with open(os.path.join(out, "cases.jsonl"), "w") as f:
    for c in CASES:
        f.write(json.dumps(c, separators=(",", ":")) + "\n")
print(len(CASES), "cases", len(TEXTS), "texts", sum(r is None for c in CASES for r in c["rows"]), "failures")
