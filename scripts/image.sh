#!/bin/bash
# The steps of Dockerfile.cuda that need no base image, separate so that tests can run them.
# Usage: image.sh binary FILE [VERSION [COMMIT DATE]]
#                                          builds warmpath with cgo
#        image.sh nixl DIR                 installs NIXL's C library, its plugins and UCX into DIR, from
#                                          the wheel nixl-cu12; needs Python's pip
set -euo pipefail

# The wheel's hash, so that exactly the tested wheel is installed.
readonly NIXL_VERSION=1.5.1
readonly NIXL_SHA256=a02005f84e498641b8fe02d058fdc6762c99edf7ae6430176d2d16fa57f4fb93

binary() {
  # go-nvml binds deprecated functions, each of which causes a compiler warning.
  CGO_ENABLED=1 CGO_CFLAGS="-O2 -g -Wno-deprecated-declarations" \
    go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=${2:-dev} -X main.commit=${3:-} -X main.date=${4:-}" -o "$1" ./cmd/warmpath
}

# The library finds its dependencies and plugins in its own folder ($ORIGIN), so the wheel's tree
# stays as it is, without its Python files.
nixl() {
  local dir=$1 scratch
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' RETURN
  echo "nixl-cu12==$NIXL_VERSION --hash=sha256:$NIXL_SHA256" >"$scratch/requirements.txt"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: --python-version 3.12 \
    --platform manylinux_2_28_x86_64 --dest "$scratch" -r "$scratch/requirements.txt"
  python3 -m zipfile -e "$scratch"/nixl_cu12-*.whl "$scratch/wheel"
  mkdir -p "$dir"
  cp -r "$scratch"/wheel/.nixl_cu12.mesonpy.libs "$scratch"/wheel/nixl_cu12.libs "$scratch"/wheel/nixl_cu12-*.dist-info "$dir"
}

case "${1:-} $#" in
"binary 2" | "binary 3" | "binary 5" | "nixl 2") "$@" ;;
*) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2 && exit 2 ;;
esac
