#!/bin/bash
# Brings what the build needs beyond Go, git and make: a C compiler, pkg-config and the libzmq headers.
# Usage: setup.sh            for build and test; says nothing and takes a few milliseconds when all is there
#        setup.sh engines    also what `make test-engines` needs: Python with its venv module
# Missing packages are installed with apt-get by root or by a user with passwordless sudo; anyone else is told the
# command to run, and the exit status is 1.
set -euo pipefail

missing=()

need_go() {
  command -v go >/dev/null && return
  echo "warmpath: the go command is not in PATH. Warmpath needs Go 1.26 or newer: https://go.dev/dl/" >&2
  [ -x /usr/local/go/bin/go ] && echo "warmpath: there is one here:  export PATH=\$PATH:/usr/local/go/bin" >&2
  exit 1
}

find_build_needs() {
  # A compiler may be there without the C library's headers, which its package only recommends.
  echo '#include <stdlib.h>' | ${CC:-gcc} -E -x c - >/dev/null 2>&1 || missing+=(gcc libc6-dev)
  # pkg-config itself may be missing, and then says nothing about libzmq: its package brings the headers either way.
  if ! command -v pkg-config >/dev/null; then
    missing+=(pkg-config libzmq3-dev)
  elif ! pkg-config --exists libzmq; then
    missing+=(libzmq3-dev)
  fi
}

# Debian's python3 carries a venv module that fails without ensurepip, which python3-venv brings.
find_engine_needs() {
  command -v python3 >/dev/null || missing+=(python3)
  python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
}

# apt-get does not wait for the lock of the package lists, which a machine that has just booted updates by itself. Lists that cannot be
# updated may still do: whether they name what is missing, the installation says.
update_lists() {
  local said
  for _ in {1..60}; do
    said=$("$@" apt-get -qq -o Acquire::Retries=3 update 2>&1) && return
    [[ $said == *"Could not get lock"* ]] || break
    sleep 5
  done
  echo "warmpath: the package lists cannot be updated: $said" >&2
}

install_missing() {
  local sudo=""
  if ! command -v apt-get >/dev/null; then
    echo "warmpath: missing: ${missing[*]} (Debian names). Install them with this system's package manager." >&2
    exit 1
  fi
  if [ "$(id -u)" != 0 ]; then
    if ! sudo -n true 2>/dev/null; then
      echo "warmpath: missing: ${missing[*]}. Run:  sudo apt-get update && sudo apt-get install -y ${missing[*]}" >&2
      exit 1
    fi
    sudo=sudo
  fi
  echo "warmpath: installing ${missing[*]}" >&2
  update_lists $sudo env LC_ALL=C
  # Another apt-get may hold the lock, for instance on a machine that has just booted. Errors go to standard error.
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 \
    install -y --no-install-recommends "${missing[@]}" >/dev/null
}

need_go
find_build_needs
[ "${1:-}" = engines ] && find_engine_needs
[ ${#missing[@]} -eq 0 ] || install_missing
