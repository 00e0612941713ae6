#!/usr/bin/env python3
"""Prints the tokenizer's Unicode tables: the character classes of the Python library
`tokenizers`.

    unicode.py > dataplane/prompt/tokenizer/unicode.txt

Each table is derived from the library's behaviour and not from Unicode's data files: the
library's parts have different versions of Unicode (Oniguruma's classes, the Rust standard
library's, and an old crate's normalization forms), and Go's own tables have yet another.
"""

import sys

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

CODEPOINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
ALL = "".join(map(chr, CODEPOINTS))
MARK = "\U0010fffe"  # a noncharacter, in none of the classes below
# Classes for \p{…}; unions such as L are composed of these.
CLASSES = (
    "Lu Lt Ll Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co "
    "Han Hiragana Katakana Hangul Latin Greek Cyrillic Arabic Hebrew Thai Devanagari"
).split()
HANGUL = range(0xAC00, 0xAC00 + 11172)  # decomposed by arithmetic


def regex_class(pattern):
    """The characters that match a regular expression of one character."""
    out = normalizers.Replace(Regex(pattern), MARK).normalize_str(ALL)
    assert len(out) == len(ALL)
    return [c for c, o in zip(CODEPOINTS, out) if o == MARK and c != ord(MARK)]


def split_class(pre_tokenizer, pieces):
    """The characters that a pre-tokenizer splits off between two letters."""
    return [c for c in CODEPOINTS if len(pre_tokenizer.pre_tokenize_str("a" + chr(c) + "a")) == pieces]


def boundary_class():
    """The characters that keep a single_word token from matching: \\w of the Rust crate regex."""
    out = []
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({"z": 0}, []))
    tokenizer.add_tokens([tokenizers.AddedToken("Q", single_word=True, normalized=False)])
    for c in CODEPOINTS:
        if chr(c) != "Q" and 1 not in tokenizer.encode("Q" + chr(c)).ids:
            out.append(c)
    return out + [ord("Q")]


def strip_class():
    """The characters that an rstrip token swallows: \\s of the Rust crate regex."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({"z": 0}, []))
    tokenizer.add_tokens([tokenizers.AddedToken("Q", rstrip=True, normalized=False)])
    return [c for c in CODEPOINTS if tokenizer.encode("Q" + chr(c)).offsets[0][1] == 2]


def ranges(codepoints):
    """Runs of consecutive numbers as hex, 'a' or 'a-b'."""
    out, run = [], []
    for c in sorted(codepoints) + [None]:
        if run and c == run[-1] + 1:
            run.append(c)
            continue
        if run:
            out.append(f"{run[0]:x}" if len(run) == 1 else f"{run[0]:x}-{run[-1]:x}")
        run = [c]
    return out


def emit(key, items):
    """Prints one table, wrapped: each line begins with its key."""
    line = key
    for item in items:
        if len(line) + 1 + len(item) > 120:
            print(line)
            line = key
        line += " " + item
    print(line)


def combining_classes(nfd):
    """The canonical combining class of each mark, from the order that NFD gives to pairs of
    marks.

    A reference mark r of class v stands for v: NFD swaps r + c when 0 < ccc(c) < v, and c + r
    when ccc(c) > v.
    """
    import unicodedata

    references = {}
    for c in CODEPOINTS:
        v = unicodedata.combining(chr(c))
        # U+0345 has the highest class, 240. A mark that does not go before it is newer than the
        # library's tables.
        known = c == 0x345 or nfd.normalize_str("a\u0345" + chr(c)) == "a" + chr(c) + "\u0345"
        if v and v not in references and known and nfd.normalize_str(chr(c)) == chr(c):
            references[v] = chr(c)
    levels = sorted(references)
    candidates = [c for c in CODEPOINTS if unicodedata.combining(chr(c)) or unicodedata.category(chr(c)) in ("Cn", "Mn", "Mc", "Me")]
    below, above = {c: [] for c in candidates}, {c: [] for c in candidates}
    for v in levels:
        r = references[v]
        # "a" stands between the pairs: it composes with nothing in NFD and is of class 0.
        first = nfd.normalize_str("".join("a" + r + chr(c) for c in candidates)).split("a")[1:]
        second = nfd.normalize_str("".join("a" + chr(c) + r for c in candidates)).split("a")[1:]
        for c, x, y in zip(candidates, first, second):
            if chr(c) != r and x == chr(c) + r:
                below[c].append(v)
            if chr(c) != r and y == r + chr(c):
                above[c].append(v)
    classes = {}
    for c in candidates:
        if len(nfd.normalize_str(chr(c))) > 1 or not (below[c] or above[c]):
            continue
        between = [v for v in levels if v not in below[c] and v not in above[c]]
        assert len(between) == 1, (hex(c), between)
        classes.setdefault(between[0], []).append(c)
    return classes


def main():
    print(f"# Made by scripts/tokenizers/unicode.py from tokenizers {tokenizers.__version__}; do not edit.")
    print("# class NAME RANGES; ccc CLASS RANGES; nfd, nfkd, lower: CHARACTER=REPLACEMENT (+ between characters);")
    print("# compose FIRST+SECOND=CHARACTER. All numbers are hex, but for the combining classes. Hangul is left out.")
    for name in CLASSES:
        emit("class " + name, ranges(regex_class(r"\p{%s}" % name)))
    for name, pattern in [("space", r"\s"), ("digit", r"\d"), ("onigword", r"\w")]:
        emit("class " + name, ranges(regex_class(pattern)))
    emit("class numeric", ranges(split_class(pre_tokenizers.Digits(individual_digits=True), 3)))
    emit("class white", ranges(split_class(pre_tokenizers.WhitespaceSplit(), 2)))
    emit("class punctuation", ranges(split_class(pre_tokenizers.Punctuation("isolated"), 3)))
    emit("class word", ranges(boundary_class()))
    emit("class strip", ranges(strip_class()))

    def mapping(normalizer, skip=()):
        out = {}
        for c in CODEPOINTS:
            to = normalizer.normalize_str(chr(c))
            if to != chr(c) and c not in skip:
                out[c] = to
        return out

    def pairs(table):
        return [f"{c:x}=" + "+".join(f"{ord(x):x}" for x in to) for c, to in table.items()]

    nfd, nfc = normalizers.NFD(), normalizers.NFC()
    for v, members in sorted(combining_classes(nfd).items()):
        emit(f"ccc {v}", ranges(members))
    canonical = mapping(nfd, HANGUL)
    compatible = mapping(normalizers.NFKD(), HANGUL)
    emit("nfd", pairs(canonical))
    emit("nfkd", pairs({c: to for c, to in compatible.items() if canonical.get(c) != to}))
    compositions = []
    for c, to in canonical.items():
        if len(to) < 2 or nfc.normalize_str(to) != chr(c):
            continue
        first = nfc.normalize_str(to[:-1])
        assert len(first) == 1, hex(c)
        compositions.append(f"{ord(first):x}+{ord(to[-1]):x}={c:x}")
    emit("compose", compositions)
    emit("lower", pairs(mapping(normalizers.Lowercase())))


if __name__ == "__main__":
    sys.exit(main())
