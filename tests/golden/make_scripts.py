"""Writes engine/text/tok_script_tab.c's table: the scripts that tokenizers' UnicodeScripts tells apart.

usage: python3 make_scripts.py >rows.txt      (tokenizers 0.23.3)

Two characters are of one script when UnicodeScripts does not cut between them; one that neither a
Latin letter nor a digit is cut from has none (0). Rows are {first character, number}.
"""
from tokenizers import pre_tokenizers

scripts = pre_tokenizers.UnicodeScripts()


def one(text):
    return [piece for piece, _ in scripts.pre_tokenize_str(text)] == [text]


def number(c, first, last):
    if one("a" + c + "a") and one("1" + c + "1"):
        return 0
    if last and one(first[last - 1] + c):
        return last
    for i, f in enumerate(first):
        if one(f + c):
            return i + 1
    first.append(c)
    return len(first)


first, last, before = [], 0, None
for cp in range(0x110000):
    if 0xD800 <= cp < 0xE000:
        continue
    k = number(chr(cp), first, last)
    last = k or last
    if k != before:
        print(f"{{0x{cp:x}, {k}}},")
        before = k
