#!/usr/bin/env bash
# Installs the routers that compare.py measures beside Warmpath, into a folder of the user's.
#
#   peers.sh [FOLDER]     default: $WARMPATH_PEERS, else ${WARMPATH_CACHE:-~/.cache/warmpath}/peers
#
# What is there already is left as it is, so that a folder with other versions may be used. haproxy and nginx are Debian's;
# the others are installed by pip into a virtual environment each, FOLDER/venv/NAME.
set -euo pipefail

folder=${1:-${WARMPATH_PEERS:-${WARMPATH_CACHE:-$HOME/.cache/warmpath}/peers}}
mkdir -p "$folder/venv"

declare -A peers=([sgr]=sglang-router==0.3.2 [smg]=smg==1.13.0 [vllmr]=vllm-router==0.1.17)
for name in "${!peers[@]}"; do
	if [ -x "$folder/venv/$name/bin/python" ]; then
		echo "$name: there already"
		continue
	fi
	echo "$name: installing ${peers[$name]}"
	python3 -m venv "$folder/venv/$name.new"
	rm -rf "$folder/venv/$name"
	mv "$folder/venv/$name.new" "$folder/venv/$name" # the prompt keeps the other name; programs are made below
	"$folder/venv/$name/bin/python" -m pip install -q "${peers[$name]}"
done

missing=()
for tool in haproxy nginx; do
	PATH=$PATH:/usr/sbin command -v $tool >/dev/null || missing+=($tool)
done
if [ ${#missing[@]} -gt 0 ]; then
	sudo=
	[ "$(id -u)" = 0 ] || sudo=sudo
	echo "installing ${missing[*]}"
	$sudo apt-get install -y -q "${missing[@]}" || {
		echo "peers.sh: cannot install ${missing[*]}: install them, then run this again; compare.py goes without those that lack" >&2
		exit 1
	}
fi
echo "peers are in $folder: WARMPATH_PEERS=$folder bench/proxy/compare.py ..."
