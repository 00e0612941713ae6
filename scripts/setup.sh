#!/bin/bash
# Installs the packages that the build needs beyond Go, git and make.
# Usage: setup.sh            for the build: a C compiler
#        setup.sh tests      also pkg-config and libzmq's headers, for tests and linters
#        setup.sh engines    also Python with its venv module, for `make test-engines`
# Root, or a user with passwordless sudo, installs missing packages with apt-get; for other users
# the script prints the command and exits with status 1. It prints nothing when nothing is
# missing.
set -euo pipefail

missing=()

need_go() {
  command -v go >/dev/null && return
  echo "warmpath: the go command is not in PATH. Warmpath needs Go 1.26 or newer: https://go.dev/dl/" >&2
  [ -x /usr/local/go/bin/go ] && echo "warmpath: found one here:  export PATH=\$PATH:/usr/local/go/bin" >&2
  exit 1
}

find_build_needs() {
  # A compiler's package only recommends the C library's headers.
  echo '#include <stdlib.h>' | ${CC:-gcc} -E -x c - >/dev/null 2>&1 || missing+=(gcc libc6-dev)
}

# Package zmq speaks ZMTP itself. libzmq is the peer in its tests, and carries CURVE with -tags
# libzmq.
find_test_needs() {
  # Without pkg-config it is unknown whether the libzmq headers are installed; apt-get skips them
  # if so.
  if ! command -v pkg-config >/dev/null; then
    missing+=(pkg-config libzmq3-dev)
  elif ! pkg-config --exists libzmq; then
    missing+=(libzmq3-dev)
  fi
}

# The venv module of Debian's python3 needs ensurepip, which is in python3-venv.
find_engine_needs() {
  command -v python3 >/dev/null || missing+=(python3)
  python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
}

# apt-get does not wait for the lock of the package lists, which a freshly booted machine updates
# by itself. A failed update is not fatal: the installation fails if the old lists lack a package.
update_lists() {
  local output
  for _ in {1..60}; do
    output=$("$@" apt-get -qq -o Acquire::Retries=3 update 2>&1) && return
    [[ $output == *"Could not get lock"* ]] || break
    sleep 5
  done
  echo "warmpath: the package lists cannot be updated: $output" >&2
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
  # Another apt-get may hold the lock, as on a freshly booted machine. Errors go to standard
  # error.
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
