#!/bin/bash
# Builds Dockerfile.cuda without Docker and without its base images, then runs the image's doctor
# and health check. Debian 13 from debootstrap substitutes all three base images.
# Usage: image-check.sh     as root, with debootstrap and buildah; 5 to 10 minutes; downloads from
#                           Debian, the Go module proxy and PyPI
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo "image-check.sh: needs root, to create a root file system" >&2; exit 1; }
for tool in debootstrap buildah go; do
  command -v "$tool" >/dev/null || { echo "image-check.sh: $tool is missing: apt-get install -y debootstrap buildah" >&2; exit 1; }
done
cache=${WARMPATH_CACHE:-$HOME/.cache/warmpath}/image
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
say() { echo "image-check.sh: $*" >&2; }

if [ ! -e "$cache/trixie.done" ]; then
  say "installing Debian 13 into $cache"
  mkdir -p "$cache" && rm -rf "$cache/trixie"
  debootstrap --variant=minbase --include=ca-certificates,python3,python3-pip,gcc,libc6-dev trixie "$cache/trixie" >/dev/null
  touch "$cache/trixie.done"
fi
say "building substitutes of the base images"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -C "$cache/trixie" --one-file-system -cf "$work/root.tar" .
printf 'FROM scratch\nADD root.tar /\nENV PIP_BREAK_SYSTEM_PACKAGES=1 DEBIAN_FRONTEND=noninteractive\n' >"$work/Dockerfile"
buildah bud --quiet -t warmpath-check/debian "$work" >/dev/null
rm "$work/root.tar"
cp -r "$(go env GOROOT)" "$work/go"
printf 'FROM warmpath-check/debian\nCOPY go /usr/local/go\nENV PATH=/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin GOFLAGS=-buildvcs=false\n' >"$work/Dockerfile"
buildah bud --quiet -t warmpath-check/go "$work" >/dev/null

# The machine's own certificates and package settings, for registries behind a proxy.
settings=(--volume "/etc/ssl/certs:/etc/ssl/certs:ro" --env "PIP_CERT=/etc/ssl/certs/ca-certificates.crt")
for name in PIP_INDEX_URL PIP_FIND_LINKS GOPROXY GONOSUMDB GOFLAGS; do
  [ -z "${!name:-}" ] || settings+=(--env "$name=${!name}")
done
[ -z "${PIP_FIND_LINKS:-}" ] || [ ! -d "$PIP_FIND_LINKS" ] || settings+=(--volume "$PIP_FIND_LINKS:$PIP_FIND_LINKS:ro")
settings+=(--volume "$(go env GOMODCACHE):/modules" --env GOMODCACHE=/modules --volume "$(go env GOCACHE):/builds" --env GOCACHE=/builds)
say "building Dockerfile.cuda"
buildah bud -f Dockerfile.cuda -t warmpath-check/warmpath "${settings[@]}" --build-arg "GO_IMAGE=localhost/warmpath-check/go" \
  --build-arg "PYTHON_IMAGE=localhost/warmpath-check/debian" --build-arg "CUDA_IMAGE=localhost/warmpath-check/debian" \
  --build-arg "VERSION=image-check" .

say "checking the image"
id=$(buildah from warmpath-check/warmpath)
trap 'buildah rm "$id" >/dev/null; rm -rf "$work"' EXIT
buildah run "$id" -- warmpath --version
buildah run "$id" -- id -u | grep -qx 10001
buildah run "$id" -- warmpath doctor | tee "$work/doctor.txt"
grep -q 'ok *NIXL' "$work/doctor.txt"
# shellcheck disable=SC2016 # expanded by the shell in the container
buildah run "$id" -- bash -c 'warmpath serve --worker http://127.0.0.1:1 2>/dev/null & for i in $(seq 100); do warmpath health && exit 0; sleep 0.1; done; exit 1'
say "passed"
