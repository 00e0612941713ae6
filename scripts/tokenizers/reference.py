#!/usr/bin/env python3
"""Encodes the corpus with each tokenizer of the Python library, as the reference of the Go test.

    reference.py ROOT

Existing encodings are kept; timings are measured each time. ROOT/reference/NAME.bin holds for
each document: the number of ids in four bytes, little-endian, the ids, and the first eight bytes
of the SHA-256 of the decoded text, with and without special tokens. ROOT/reference/NAME.json
holds the path of the tokenizer's file, the ids that add_special_tokens puts around a text, the
library's version, and seconds of CPU for bench.bin, cold and warm.
"""

import glob
import hashlib
import json
import os
import struct
import subprocess
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import tokenizers

WARM = 5  # runs, of which the median counts


def documents(path):
    data, i, out = open(path, "rb").read(), 0, []
    while i < len(data):
        (n,) = struct.unpack_from("<I", data, i)
        out.append(data[i + 4 : i + 4 + n].decode("utf-8", "replace"))
        i += 4 + n
    return out


def timed(encode, texts):
    seconds = []
    for _ in range(1 + WARM):
        start = time.process_time()
        for text in texts:
            encode(text)
        seconds.append(time.process_time() - start)
    return {"cold_s": seconds[0], "warm_s": sorted(seconds[1:])[WARM // 2]}


def digest(text):
    return hashlib.sha256(text.encode()).digest()[:8]


def write(root, name, encode, decode, corpus, facts):
    json.dump(facts, open(f"{root}/reference/{name}.json", "w"), indent=1)
    path = f"{root}/reference/{name}.bin"
    if os.path.exists(path):
        return
    with open(path + ".part", "wb") as out:
        for text in corpus:
            ids = encode(text)
            out.write(struct.pack(f"<I{len(ids)}I", len(ids), *ids))
            out.write(digest(decode(ids, False)) + digest(decode(ids, True)))
    os.rename(path + ".part", path)
    print(f"{name}: {len(corpus)} documents", flush=True)


def peer(root, tokenizer):
    """Seconds of a Rust crate, if its program was built."""
    program = f"{root}/peer/release/peer"
    if not os.path.exists(program):
        return None
    cold, warm, _, _ = subprocess.run([program, tokenizer, f"{root}/bench.bin"], capture_output=True, text=True, check=True).stdout.split()
    return {"cold_s": float(cold), "warm_s": float(warm)}


def hugging_face(root, name, path, corpus, bench):
    tokenizer = tokenizers.Tokenizer.from_file(path)

    def encode(text):
        return tokenizer.encode(text, add_special_tokens=False).ids

    around = tokenizer.encode("a").ids
    plain = encode("a")
    at = next(i for i in range(len(around)) if around[i : i + len(plain)] == plain)
    facts = {
        "file": path,
        "library": f"tokenizers {tokenizers.__version__}",
        "before": around[:at],
        "after": around[at + len(plain) :],
        "times": {"python tokenizers": timed(lambda text: tokenizer.encode(text, add_special_tokens=False), bench)},
    }
    if seconds := peer(root, path):
        facts["times"]["rust tokenizers"] = seconds
    if name == "gptoss":
        facts["times"] |= o200k(root, path, encode, corpus, bench)
    write(root, name, encode, lambda ids, skip: tokenizer.decode(ids, skip_special_tokens=skip), corpus, facts)


def o200k(root, path, encode, corpus, bench):
    """Times of tiktoken and bpe-openai, which have the vocabulary of GPT-OSS."""
    import tiktoken

    letters = {c: b for b, c in ((b, chr(b)) for b in [*range(33, 127), *range(161, 173), *range(174, 256)])}
    letters |= {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in letters.values())}
    file = json.load(open(path, encoding="utf-8"))
    ranks = {bytes(letters[c] for c in token): rank for token, rank in file["model"]["vocab"].items()}
    pattern = file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
    encoding = tiktoken.Encoding("o200k", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    sample = [text for text in corpus[::40] if "<|" not in text and len(text) < 100_000]
    equal = sum(encoding.encode_ordinary(text) == encode(text) for text in sample)
    print(f"tiktoken agrees with tokenizers on {equal} of {len(sample)} documents", flush=True)
    times = {"python tiktoken": timed(encoding.encode_ordinary, bench)}
    if seconds := peer(root, "o200k_base"):
        times["rust bpe-openai"] = seconds
    return times


def main(root):
    os.makedirs(f"{root}/reference", exist_ok=True)
    corpus, bench = documents(f"{root}/corpus.bin"), documents(f"{root}/bench.bin")
    for path in sorted(glob.glob(f"{root}/npm/tokenizer-*/package/models/tokenizer.json")):
        hugging_face(root, path.split("/")[-4].removeprefix("tokenizer-"), path, corpus, bench)


if __name__ == "__main__":
    main(sys.argv[1])
