#!/bin/bash
# Installs a real, unedited SGLang 0.5.23 that runs on an x86-64 CPU, and two small random-weight models for it.
#
#   install.sh          into $WARMPATH_ENGINES (default ~/.cache/warmpath-engines): 7 GB, 3 to 10 minutes, once
#
# Needs python3 with venv (3.10 or later), apt-get and dpkg (for four libraries, which are unpacked and not installed, so
# no root), and PyPI. Where the installation is complete it does nothing; an interrupted one is taken up again.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=${WARMPATH_ENGINES:-$HOME/.cache/warmpath-engines}
[ -e "$root/ready" ] && [ -e "$root/dear" ] && exit 0

mkdir -p "$root"/{debs,lib}
# Two checkouts that test at once must not install into one folder at once: the second waits, then finds it ready.
exec 9>"$root/lock"
flock 9

say() { echo "install.sh: $*" >&2; }
# Each model appears whole or not at all, since engines may be running meanwhile.
model() {
  [ -e "$root/$1" ] && return
  say "the model $1"
  rm -rf "$root/$1.part"
  SGLANG_USE_CPU_ENGINE=1 PYTHONDONTWRITEBYTECODE=1 "$root/sglang/bin/python" "$here/$2" "$root/$1.part"
  mv "$root/$1.part" "$root/$1"
}
models() {
  model tiny mkmodel.py
  model dear mkdear.py
}
if [ -e "$root/ready" ]; then
  models
  exit 0
fi
began=$SECONDS
say "installing SGLang 0.5.23 into $root (about 7 GB)"
python3 -m venv "$root/sglang"
# What pip has fetched it keeps, so that a download which a bad line has cut off costs that file only.
pip() {
  local try
  for try in 1 2 3; do
    nice "$root/sglang/bin/pip" install --quiet --disable-pip-version-check --retries 10 --timeout 60 "$@" && return
    say "try $try failed"
  done
  return 1
}
say "PyTorch"
pip torch==2.14.1 # the CUDA wheel, which is what sglang asks for; it imports without a GPU
say "SGLang's requirements"
pip -r "$here/requirements.txt"
# --no-deps: their own lists would pull in CUDA kernels (flashinfer, sgl-kernel, …) that a CPU cannot load; shim/ stands in.
say "SGLang and its transfer libraries"
pip --no-deps torchvision==0.29.2 sglang==0.5.23
pip --no-deps mooncake-transfer-engine-non-cuda==0.3.13.post1 # prefill-to-decode transfer over TCP
pip --no-deps nixl==1.5.1 nixl-cu13==1.5.1                    # prefill-to-decode transfer over UCX
# libmooncake and libnixl link against RDMA user space even where there is no RDMA device.
libraries() { (cd "$root/debs" && apt-get -o Acquire::Retries=3 download -q libibverbs1 libnl-3-200 libnl-route-3-200 librdmacm1); }
# A fresh machine has no package lists yet.
libraries || { say "updating the package lists"; apt-get -qq update || sudo -n apt-get -qq update; libraries; }
for deb in "$root"/debs/*.deb; do dpkg -x "$deb" "$root/lib"; done
models
touch "$root/ready"
say "done in $((SECONDS - began)) s"
