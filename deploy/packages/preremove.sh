#!/bin/sh
# dpkg says "remove" and rpm 0 where the package goes; an upgrade leaves the services alone.
set -e
case "$1" in
remove | 0)
  if [ -d /run/systemd/system ]; then
    systemctl disable --now warmpath.service warmpath.socket warmpath-node.service || true
  fi
  ;;
esac
