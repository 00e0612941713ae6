#!/bin/bash
# Runs the tests of packages again and again, with the race detector, beside a busy machine: a test
# that fails there is wrong, or has found a fault.
#
#   stress.sh COUNT LOAD "PACKAGES" [flags of the test binary]
#
# LOAD busy loops run on two cores, with the tests. Each package's tests run COUNT times, in one
# process each time. The end lists the failed tests and how often they failed; their output is kept.
set -uo pipefail

count=$1 load=$2 packages=$3
shift 3
kept=$(mktemp -d "${TMPDIR:-/tmp}/stress.XXXXXX")
loops=()
trap 'kill "${loops[@]}" 2>/dev/null; rm -rf "$kept/bin"; [ -s "$kept/failures" ] || rm -rf "$kept"' EXIT
mkdir "$kept/bin"

# Build before the load begins.
listed=$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}' $packages) || exit 1
while read -r package directory; do
  go test -race -vet=off -ldflags='-s -w' -tags invariants -c -o "$kept/bin/${package//\//_}" "$package" || exit 1
done <<<"$listed"

cores=()
command -v taskset >/dev/null && cores=(taskset -c "$(taskset -pc $$ | sed 's/.*: //; s/-/,/' | cut -d, -f1-2)")
for ((i = 0; i < load; i++)); do
  "${cores[@]}" bash -c 'while :; do :; done' &
  loops+=($!)
done

: >"$kept/failures"
for ((round = 1; round <= count; round++)); do
  failed=0
  while read -r package directory; do
    log=$kept/${package//\//_}.$round.txt
    if (cd "$directory" && "${cores[@]}" "$kept/bin/${package//\//_}" -test.timeout 60m -test.v "$@") >"$log" 2>&1 </dev/null; then
      rm "$log"
      continue
    fi
    failed=$((failed + 1))
    names=$(sed -n 's/^ *--- FAIL: \([^ ]*\).*/\1/p' "$log")
    for name in ${names:-"(outside of a test)"}; do echo "$package $name" >>"$kept/failures"; done
    echo "round $round: $package: ${names//$'\n'/ }: $log"
  done <<<"$listed"
  echo "round $round of $count: $failed packages failed"
done

[ -s "$kept/failures" ] || { echo "stress: nothing failed in $count rounds beside a load of $load"; exit 0; }
echo "stress: failures in $count rounds beside a load of $load"
sort "$kept/failures" | uniq -c | sort -rn
exit 1
