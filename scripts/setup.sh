#!/bin/bash
# Installs the packages that the build needs beyond Go, git and make.
# Usage: setup.sh            for the build: a C compiler
#        setup.sh tests      for tests and linters too: pkg-config and libzmq, the judge of package zmq
#        setup.sh engines    for `make test-engines` too: Python with its venv module
# It takes a few milliseconds and prints nothing when all of them are there. Root and users with passwordless sudo
# install missing ones with apt-get; other users get the command to run, and exit status 1.
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
}

# Package zmq speaks ZMTP by itself. libzmq is the other end in its tests, and carries CURVE with -tags libzmq.
find_test_needs() {
  # Where pkg-config is missing, it cannot tell whether libzmq is there: apt-get installs both.
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
case "${1:-}" in
tests) find_test_needs ;;
engines) find_test_needs && find_engine_needs ;;
esac
[ ${#missing[@]} -eq 0 ] || install_missing
