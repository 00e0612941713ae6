#!/bin/bash
# Brings what `make test-tokenizers` compares with: installs, makes the texts, and lets the Python libraries encode them.
#
#   reference.sh        into $WARMPATH_TOKENIZERS (default ~/.cache/warmpath-tokenizers)
#
# What the libraries make of the texts is kept; delete the folder reference/ there to have it made again (20 to 60 minutes
# of one core, most of it for inputs of 1 MB). Their speed is measured each time, so that it is of the same hour as ours.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=${WARMPATH_TOKENIZERS:-$HOME/.cache/warmpath-tokenizers}
"$here/install.sh"
python=$root/venv/bin/python
[ -e "$root/corpus.bin" ] || "$python" "$here/corpus.py" "$root"
"$python" "$here/reference.py" "$root"
