#!/bin/bash
# Prepares `make test-tokenizers`: installs the Python libraries, generates texts and encodes
# them.
#
#   reference.sh        into $WARMPATH_TOKENIZERS (default ~/.cache/warmpath-tokenizers)
#
# The encodings are kept in the folder reference/; delete it to regenerate them (20 to 60 minutes
# of one core, mostly for inputs of 1 MB). The libraries' speed is measured each time, beside
# ours.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=${WARMPATH_TOKENIZERS:-$HOME/.cache/warmpath-tokenizers}
"$here/install.sh"
python=$root/venv/bin/python
[ -e "$root/corpus.bin" ] || "$python" "$here/corpus.py" "$root"
"$python" "$here/reference.py" "$root"
