#!/usr/bin/env python3
"""Writes test vectors of the BPE tokenizer: small tokenizers, and the Python library's encodings.

    vectors.py dataplane/prompt/tokenizer/testdata/vectors

The library trains each tokenizer on the sentences below, written for this file, so nothing comes
from a real model. Together they use every construct that the Go package reads. A file holds the
tokenizer.json and cases of: text, ids, ids with add_special_tokens, text of the ids, the same
without special tokens.
"""

import json
import random
import sys

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SENTENCES = [
    "The quick brown fox jumps over the lazy dog, and it doesn't care; we'll see what they've done. I'm here, you're there.",
    "def main(argv):\n    for i in range(100):\n        print(i, argv[i % 2])  # 12345 and 67\n\treturn None\n",
    "Größe, naïve café, Ærø, façade, señor. Быстрая лиса прыгает через ленивую собаку. Η γρήγορη αλεπού.",
    "敏捷的棕色狐狸跳过了懒狗。今天天气很好,我们去公园吧。素早い茶色の狐がのろまな犬を飛び越える。빠른 갈색 여우가 게으른 개를 뛰어넘는다.",
    "الثعلب البني السريع يقفز فوق الكلب الكسول. สุนัขจิ้งจอกสีน้ำตาลกระโดดข้ามสุนัขขี้เกียจ। तेज़ भूरी लोमड़ी आलसी कुत्ते पर कूदती है।",
    "😀 😃 👩‍👩‍👧 👍🏽 ❤️ x² + y² = z², ½ Ⅷ ٣٤ <|im_start|>user\nhello<|im_end|>",
    "HTTPServer camelCase snake_case XMLHttpRequest I'LL DON'T   many    spaces\r\n\r\nand lines\n\n\n",
]
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = LLAMA3.replace("{1,3}", "")
QWEN35 = QWEN.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
CASE = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]%s[\p{Ll}\p{Lm}\p{Lo}\p{M}]%s"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = CASE % ("*", "+") + SUFFIX + "|" + CASE % ("+", "*") + SUFFIX + r"|\p{N}{1,3}" + TAIL
NEMO = CASE % ("*", "+") + "|" + CASE % ("+", "*") + r"|\p{N}" + TAIL
DEEPSEEK = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^" + "\r\n" + r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+["
    "\r\n" + r"]*|\s*[" + "\r\n" + r"]+|\s+(?!\S)|\s+"
).replace('\\"', '"')
# Pattern constructs without a hand-written scanner: possessive and lazy quantifiers, atomic
# groups, look-behind, look-ahead, nested and intersected classes, scripts, escapes.
GENERAL = (
    r"(?i:[dm]t|ll|'S)(?=\s)|\p{Han}++|[\p{L}&&[^\p{Lu}]]{2,4}(?!\d)|(?>a|ab)c|(?<=[0-9])[\x{41}-\u0043x-z]+|(?<!\s)\n"
    r"|[^\P{N}\d]+|\d{2,3}+|[[!-/]\p{Sc}]+?\w|\A\S|\W{2}|(?:[A-Z]?+[a-z])*?\p{^L}|^-|\.$"
)


def texts():
    """The cases: sentences, and short adversarial texts."""
    rng = random.Random(7)
    out = ["", " ", "a", "\n", "  a", "a  ", "'s", "'ſ'S x'LL'Ll", "\u0301a", "a\u0301\u0323", "ﬁ①Å가\u1100\u1161", "\x00\x01b", "\u200da"]
    out += SENTENCES
    out += [s[i : i + 40] for s in SENTENCES for i in range(0, len(s), 29)]
    alphabet = " \n\r\t'sStTlLrReEvVmM1٣½².,!/-aAzZéÉ中の_\u0301\u017f\u00a0\u2003ªʰǅ<|>\x00\u200d▁ĠÅ😀ab  "
    out += ["".join(rng.choice(alphabet) for _ in range(rng.choice([2, 4, 9, 20]))) for _ in range(110)]
    names = ["<|im_start|>", "<|im_end|>", "<|im_", "<s>", "</s>", "<pad>", "[MASK]", "mask", "Word", "word", "words", "<unk>", "NewToken"]
    fill = [" ", "  ", "\n", "x", "a word", "Ab", "1", ""]
    out += ["".join(rng.choice(names) + rng.choice(fill) for _ in range(rng.choice([1, 2, 5]))) for _ in range(60)]
    return out


def special(content, **flags):
    return AddedToken(content, special=True, normalized=flags.pop("normalized", False), **flags)


def train(size=440, byte_level=True, **options):
    """A trained tokenizer. The training text is one piece, so that all of the caller's constructs
    apply."""

    def build(pre, norm=None, unk=None, added=(), dec=None, post=None, edit=None):
        tokenizer = Tokenizer(models.BPE(unk_token=unk, **options))
        if norm is not None:
            tokenizer.normalizer = norm
        if pre is not None:
            tokenizer.pre_tokenizer = pre
        alphabet = pre_tokenizers.ByteLevel.alphabet() if byte_level else []
        first = ([unk] if unk else []) + ([f"<0x{b:02X}>" for b in range(256)] if options.get("byte_fallback") else [])
        trainer = trainers.BpeTrainer(
            vocab_size=size, initial_alphabet=alphabet, special_tokens=first, show_progress=False, max_token_length=12,
            # Without a limit every character would be a token, and none would be unknown.
            limit_alphabet=1000 if byte_level else 150,
        )
        tokenizer.train_from_iterator(SENTENCES * 3, trainer)
        file = json.loads(tokenizer.to_str())
        # The trainer adds its special tokens as added tokens; in real files byte tokens are not.
        file["added_tokens"] = [t for t in file["added_tokens"] if not t["content"].startswith("<0x")]
        if edit:
            edit(file)
        tokenizer = Tokenizer.from_str(json.dumps(file))
        tokenizer.add_tokens(list(added))
        tokenizer.decoder = dec or decoders.ByteLevel()
        if post:
            tokenizer.post_processor = post(tokenizer)
        return tokenizer

    return build


def byte_level(pattern):
    bare = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), bare])


def template(before, after=""):
    def make(tokenizer):
        names = [n for n in (before + " " + after).split() if n != "$A"]
        return processors.TemplateProcessing(
            single=" ".join(filter(None, [before, "$A", after])), special_tokens=[(n, tokenizer.token_to_id(n)) for n in names]
        )

    return make


def legacy_merges(file):
    file["model"]["merges"] = [" ".join(pair) for pair in file["model"]["merges"]]


def drop_tokens(*names):
    """Removes characters from the vocabulary, with all merges that need them."""

    def edit(file):
        model = file["model"]
        gone = {t for t in model["vocab"] if any(n in t for n in names) and not t.startswith("<")} | {n for n in names if n in model["vocab"]}
        model["vocab"] = {t: i for t, i in model["vocab"].items() if t not in gone}
        model["merges"] = [p for p in model["merges"] if not ({*p, "".join(p)} & gone)]

    return edit


def sentencepiece_decoder(strip=True):
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(parts + ([decoders.Strip(" ", 1, 0)] if strip else []))


def all_tokenizers():
    im = [special("<|im_start|>"), special("<|im_end|>"), special("<s>"), special("</s>")]
    yield "llama3", train(ignore_merges=True)(
        byte_level(LLAMA3), added=im, post=lambda t: processors.Sequence([processors.ByteLevel(), template("<s>")(t)])
    )
    yield "qwen", train()(byte_level(QWEN), norm=normalizers.NFC(), added=im, edit=legacy_merges)
    yield "qwen35", train()(byte_level(QWEN35), norm=normalizers.NFC(), added=im)
    yield "o200k", train(ignore_merges=True)(byte_level(O200K), added=im)
    yield "nemo", train(ignore_merges=True)(byte_level(NEMO), added=im, post=template("<s>", "</s>"))
    yield "general", train()(byte_level(GENERAL), added=im)
    splits = [pre_tokenizers.Split(Regex(p), "isolated") for p in (r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK)]
    bare = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    yield "deepseek", train()(
        pre_tokenizers.Sequence([*splits, bare]),
        norm=normalizers.Sequence([]),
        added=[
            special("<s>"),
            AddedToken("<|im_start|>", normalized=True),
            AddedToken("<|im_end|>", normalized=True),
            special("<pad>", normalized=True),
        ],
    )

    def roberta(tokenizer):
        ends = [(name, tokenizer.token_to_id(name)) for name in ("</s>", "<s>")]
        return processors.RobertaProcessing(*ends)

    yield "gpt2", train()(pre_tokenizers.ByteLevel(add_prefix_space=True), added=im, post=roberta)
    yield "starcoder", train()(pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)]), added=im)
    falcon = [
        pre_tokenizers.Punctuation("contiguous"),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        pre_tokenizers.Digits(False),
        pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
    ]
    yield "falcon", train()(pre_tokenizers.Sequence(falcon), added=im)
    # A byte-level vocabulary that lacks some bytes: with unk, fused or not, and without.
    yield "missing-unk", train()(byte_level(LLAMA3), unk="<unk>", edit=drop_tokens("Ã", "Ġ"))
    yield "missing-fused", train(fuse_unk=True)(byte_level(LLAMA3), unk="<unk>", edit=drop_tokens("Ã", "ä", "å"))
    yield "missing-dropped", train()(byte_level(LLAMA3), edit=drop_tokens("Ã", "e"))

    flags = [
        special("<|im_end|>", rstrip=True),
        special("<|im_start|>", lstrip=True),
        special("[MASK]", lstrip=True, rstrip=True),
        AddedToken("word", single_word=True, normalized=False),
        AddedToken("Word", single_word=True, normalized=True),
        AddedToken("<s>", normalized=True),
        special("</s>", normalized=True),
        AddedToken("mask", normalized=True, lstrip=True),
        special("<pad>", rstrip=True, lstrip=True, single_word=True),
        AddedToken("NewToken", normalized=True),
        AddedToken("\n\n", normalized=False),
    ]
    yield "added", train()(byte_level(LLAMA3), norm=normalizers.Lowercase(), added=flags)
    yield "added-plain", train()(byte_level(QWEN), added=flags)
    yield "added-replace", train(byte_level=False, size=500, byte_fallback=True, fuse_unk=True)(
        None, norm=normalizers.Replace(" ", "▁"), unk="<unk>", added=flags, dec=sentencepiece_decoder(False)
    )

    prepend = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    sp = {"byte_level": False, "size": 500}
    yield "llama2", train(**sp, byte_fallback=True, fuse_unk=True)(
        None, norm=prepend, unk="<unk>", added=[special("<s>"), special("</s>")], dec=sentencepiece_decoder(), post=template("<s>")
    )
    yield "gemma", train(**sp, byte_fallback=True, fuse_unk=True)(
        pre_tokenizers.Split(" ", "merged_with_previous"),
        norm=normalizers.Replace(" ", "▁"),
        unk="<unk>",
        added=im,
        dec=sentencepiece_decoder(False),
    )
    yield "partial-fallback", train(**sp, byte_fallback=True, fuse_unk=True)(
        None, norm=prepend, unk="<unk>", dec=sentencepiece_decoder(), edit=drop_tokens("<0xE2>", "<0xF0>", "Г", "лиса", "ö")
    )
    for scheme in ("first", "always", "never"):
        for split in (True, False):
            pre = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
            yield f"metaspace-{scheme}-{split}".lower(), train(**sp, fuse_unk=split)(
                pre, unk="<unk>", added=[special("<s>"), special("<|im_end|>")], dec=decoders.Metaspace(prepend_scheme=scheme, split=split)
            )
    replace = [normalizers.Replace(Regex(r"\s{2,}|\d+(?=[,;])"), "_"), normalizers.Replace("o", "0")]
    yield "normalizers", train(**sp)(
        pre_tokenizers.WhitespaceSplit(),
        norm=normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(), normalizers.Lowercase(), *replace]),
        unk="<unk>",
        dec=decoders.Fuse(),
    )
    strip = normalizers.Strip(left=True, right=False)
    yield "nfd", train(**sp)(None, norm=normalizers.Sequence([normalizers.NFD(), strip]), unk="<unk>", dec=decoders.Fuse())
    yield "nfkd", train(**sp)(pre_tokenizers.Punctuation(), norm=normalizers.NFKD(), unk="<unk>", dec=decoders.Fuse())
    for behavior in ("isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            pre = pre_tokenizers.Split(Regex(r"[aeiou ]|\d\d"), behavior, invert)
            yield f"split-{behavior}-{invert}".lower().replace("_", "-"), train(**sp)(pre, unk="<unk>", dec=decoders.Fuse())


def main(folder):
    cases = texts()
    for name, tokenizer in all_tokenizers():
        rows = []
        for text in cases:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            rows.append([text, ids, tokenizer.encode(text).ids, tokenizer.decode(ids, skip_special_tokens=False), tokenizer.decode(ids)])
        with open(f"{folder}/{name}.json", "w", encoding="utf-8") as out:
            head = {"made_by": f"scripts/tokenizers/vectors.py, tokenizers {tokenizers.__version__}"}
            out.write(json.dumps(head)[:-1] + ',\n"tokenizer": ' + json.dumps(json.loads(tokenizer.to_str()), separators=(",", ":")))
            out.write(',\n"cases": [\n' + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]}\n")
        print(name, len(rows), tokenizer.get_vocab_size())


if __name__ == "__main__":
    main(sys.argv[1])
