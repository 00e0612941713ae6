#!/bin/sh
# A new binary is for the next start: what runs goes on, and takes over by SIGUSR2 without losing a
# request (see /usr/lib/systemd/system/warmpath.service).
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
echo "warmpath: name the workers in /etc/warmpath/workers, then: systemctl enable --now warmpath"
