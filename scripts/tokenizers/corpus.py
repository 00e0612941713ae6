#!/usr/bin/env python3
"""Generates the texts for comparing the BPE tokenizer with the Python library.

    corpus.py ROOT      writes ROOT/corpus.bin (all) and ROOT/bench.bin (prose and code, for timing)

A document is its length in four bytes, little-endian, and its bytes, which need not be UTF-8.
Sources are the messages of the TypeScript compiler in 13 languages, names of emoji in 30, the
source of Python's standard library and of an installed Go, and adversarial texts: every character
of Unicode, special tokens, contractions, marks out of order, broken UTF-8.
"""

import base64
import glob
import json
import os
import random
import struct
import subprocess
import sys
import sysconfig

rng = random.Random(20261121)


def messages(root):
    """Prose: a few messages of one language joined to a paragraph."""
    for path in sorted(glob.glob(f"{root}/npm/typescript/package/lib/*/diagnosticMessages.generated.json")):
        lines = list(json.load(open(path, encoding="utf-8")).values())
        for i in range(0, len(lines), 10):
            yield rng.choice([" ", "\n", "\n\n", "\r\n"]).join(lines[i : i + rng.choice([1, 3, 10])])


def emoji(root):
    """Emoji with joiners and selectors, mixed with their names in many scripts."""
    for path in sorted(glob.glob(f"{root}/npm/emojibase-data/package/*/compact.json")):
        entries = json.load(open(path, encoding="utf-8"))
        for _ in range(60):
            some = rng.sample(entries, 12)
            yield rng.choice(["", " ", "\n", ", "]).join(
                e.get("unicode", "") + rng.choice(["", " ", ": "]) + (e.get("label") or "") for e in some
            )


def code():
    """Source files of Python and Go, in parts of up to 8 kB."""
    stdlib = sysconfig.get_paths()["stdlib"]
    files = sorted(glob.glob(stdlib + "/*.py")) + sorted(glob.glob(stdlib + "/[a-m]*/*.py"))
    try:
        goroot = subprocess.run(["go", "env", "GOROOT"], capture_output=True, text=True, check=True).stdout.strip()
        files += sorted(glob.glob(goroot + "/src/*/*.go"))[:600]
    except (OSError, subprocess.CalledProcessError):
        pass
    rng.shuffle(files)
    for path in files[:900]:
        try:
            text = open(path, encoding="utf-8", newline="").read()
        except (OSError, UnicodeDecodeError):
            continue
        for i in range(0, min(len(text), 32000), 8000):
            yield text[i : i + 8000]


def every_character():
    """Each assignable character of Unicode: alone, doubled, in words, after an apostrophe, with
    spaces."""
    limits = [(0, 0xD800), (0xE000, 0xE100), (0xF8F0, 0x11000), (0x11000, 0x20010), (0x2A6D0, 0x2A710), (0x2FA00, 0x31400)]
    limits += [(0x323A0, 0x323C0), (0xE0000, 0xE0200), (0x10FFF0, 0x110000)]
    points = [c for low, high in limits for c in range(low, high)]
    for i in range(0, len(points), 48):
        yield "".join(f"'{chr(c)}a {chr(c)}{chr(c)} A{chr(c)}\n{chr(c)}'{chr(c)} 1{chr(c)}" for c in points[i : i + 48])


def contractions():
    """Contractions and apostrophes in both cases, with the characters that fold to ASCII."""
    for _ in range(1200):
        parts = ["'s", "'S", "'ſ", "'t", "'T", "'re", "'RE", "'rE", "'ve", "'m", "'ll", "'LL", "'l", "'r", "'d", "'K", "'\u212a", "'ﬆ"]
        words = ["I", "you", "HE", "we", "x", "É", "中", "1", " ", "  ", "\n", "’", "'", "''"]
        yield "".join(rng.choice(parts) if rng.random() < 0.5 else rng.choice(words) for _ in range(rng.choice([2, 5, 20])))


ALPHABETS = [
    " \n\r\t'sSdDtTlLrReEvVmM1٣.,!/-aAzZéÉ中の_\u0301\u017f\u00a0\u2003ªʰǅ<|>\x00\u200d",
    "  \n\n\r \t\u3000\u2028\x0b\x0c\x85ab",
    "aAbBʰªǅǆÉé\u0301\u0308中あ'",
    "0123456789٠١٢๑Ⅷ½² ,.",
    "▁ _Ġ▁▁<0xE2><unk>s",
    "がぎカ゛ー々〆漢字。、「」A1 ",
    "\u1100\u1161\u11a8각가\uac01각 ",
]


def alphabets():
    for _ in range(4000):
        alphabet = rng.choice(ALPHABETS)
        yield "".join(rng.choice(alphabet) for _ in range(rng.choice([1, 2, 3, 5, 8, 13, 34, 89])))


def marks():
    """Marks in and out of order, in runs of up to 80, on composing and other bases."""
    classes = [0x300, 0x301, 0x308, 0x323, 0x327, 0x328, 0x345, 0x5B0, 0x5BC, 0x64B, 0x651, 0x93C, 0x94D, 0x3099, 0x302A, 0x1DFA]
    bases = "aeoAE uα와가ᄀがक़ ①ﬁÅ"
    for _ in range(900):
        out = ""
        for _ in range(rng.choice([1, 3, 10])):
            out += rng.choice(bases) + "".join(chr(rng.choice(classes)) for _ in range(rng.choice([0, 1, 2, 4, 35, 80])))
        yield out


def scripts():
    """Random words of one block of Unicode with spaces and digits."""
    blocks = [(0xC0, 0x250), (0x370, 0x400), (0x400, 0x530), (0x530, 0x600), (0x600, 0x700), (0x900, 0x980), (0xE00, 0xE80)]
    blocks += [(0x1000, 0x10A0), (0x10A0, 0x1100), (0x1200, 0x1380), (0x1E00, 0x2000), (0x2000, 0x2070), (0x20A0, 0x2200)]
    blocks += [(0x3040, 0x3100), (0x4E00, 0xA000), (0xAC00, 0xD7A4), (0xFB00, 0xFDFF), (0xFF00, 0xFFEF), (0x1D400, 0x1D800)]
    blocks += [(0x1F300, 0x1FA00), (0x20000, 0x20100), (0x10400, 0x10450), (0x0, 0x80)]
    for _ in range(2000):
        low, high = rng.choice(blocks)
        yield "".join(chr(rng.randrange(low, high)) if rng.random() < 0.85 else rng.choice(" \n.,1'") for _ in range(rng.choice([5, 40, 200])))


def specials(root):
    """Added tokens of all tokenizers, whole and truncated, mixed with text."""
    names = set()
    for path in glob.glob(f"{root}/npm/*/package/models/tokenizer.json"):
        names |= {t["content"] for t in json.load(open(path, encoding="utf-8"))["added_tokens"]}
    names = sorted(names)
    plain = [n for n in names if "reserved" not in n and "unused" not in n and "SPECIAL" not in n and "place" not in n]
    for _ in range(1200):
        out = ""
        for _ in range(rng.choice([1, 4, 12])):
            name = rng.choice(plain if rng.random() < 0.8 else names)
            out += rng.choice([name, name, name[: rng.randrange(len(name)) + 1], " ", "\n", "hello", " world", "<|", "|>", "<", "  "])
        yield out


def broken():
    """Random bytes, and text with bytes changed."""
    sample = "héllo wörld — 中文字符 😀👩‍👩‍👧 <|im_end|> ".encode()
    for _ in range(800):
        if rng.random() < 0.3:
            yield bytes(rng.randrange(256) for _ in range(rng.choice([1, 3, 20, 200])))
            continue
        text = bytearray(sample * rng.choice([1, 3]))
        for _ in range(rng.choice([1, 5])):
            text[rng.randrange(len(text))] = rng.randrange(256)
        yield bytes(text)


def large():
    """Inputs of 1 MB: one letter, no spaces, only spaces, line breaks, digits, Chinese, marks."""
    million = 1 << 20
    yield "a" * million
    yield "A" * million
    yield " " * million
    yield " " * (million // 2) + "x" + "\n" * (million // 2)
    yield "\r\n" * (million // 2)
    yield "7" * million
    yield "中" * (million // 3)
    yield "".join(chr(rng.randrange(0x4E00, 0x9000)) for _ in range(million // 3))
    yield base64.b64encode(bytes(rng.randrange(256) for _ in range(million * 3 // 4))).decode()
    yield "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(million))
    yield "".join(rng.choice("!?.,;:-_/\\|<>") for _ in range(million))
    yield "e\u0301" * (million // 3)
    yield "😀" * (million // 4)
    yield "ab" * (million // 2)


def write(path, documents):
    with open(path, "wb") as out:
        for document in documents:
            data = document if isinstance(document, bytes) else document.encode("utf-8", "replace")
            out.write(struct.pack("<I", len(data)) + data)


def main(root):
    prose, source = list(messages(root)), list(code())
    everything = [""] + prose + source
    for make in (lambda: emoji(root), every_character, contractions, alphabets, marks, scripts, lambda: specials(root), broken):
        everything += list(make())
    joined = "\n\n".join(prose + source)
    write(f"{root}/corpus.bin", everything + list(large()) + [joined[: 1 << 20]])
    timed = prose[::4] + source[::2]
    rng.shuffle(timed)
    write(f"{root}/bench.bin", timed)
    size = os.path.getsize(f"{root}/corpus.bin")
    print(f"{len(everything) + 15} documents, {size / 1e6:.1f} MB; {len(timed)} to time, {os.path.getsize(root + '/bench.bin') / 1e6:.1f} MB")


if __name__ == "__main__":
    main(sys.argv[1])
