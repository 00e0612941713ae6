#!/bin/bash
# Runs tests so that the verdict can be believed: go test, and a failed test again, alone.
#
#   [RERUNS=2] [TABLE=1] gotest.sh LABEL "PACKAGES" [flags of go test]
#
# A test that fails and then passes is printed under "flaky:"; it is a fault to mend. One that fails
# at every run fails all. Panics, data races, leaked goroutines and build errors are never run again.
# TABLE prints all output, and the time and the result of each test at the end.
# $WARMPATH_RESULTS, if it names a folder, keeps LABEL.json, all output of all runs.
set -uo pipefail

label=$1 packages=$2
shift 2
[ -n "$packages" ] || exit 0
results=${WARMPATH_RESULTS:-}
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
[ -n "$results" ] || results=$temporary
mkdir -p "$results"
events=$results/$label.json

format=pkgname-and-test-fails
[ -z "${TABLE:-}" ] || format=standard-verbose
go run "$GOTESTSUM" --format $format --format-icons text --hide-summary skipped \
  --jsonfile "$events" --packages "$packages" --rerun-fails="${RERUNS:-2}" \
  --rerun-fails-max-failures 10 --rerun-fails-run-root-test --rerun-fails-abort-on-data-race -- "$@"
status=$?

# Each line of the file is one event, with its output last.
read_events() {
  awk 'function field(name) { return match($0, "\"" name "\":\"[^\"]*\"") ? substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 5) : "" }
    { elapsed = match($0, /"Elapsed":[0-9.]+/) ? substr($0, RSTART + 10, RLENGTH - 10) : 0
      sub(/"Output":.*/, ""); action = field("Action"); package = field("Package"); test = field("Test") }'"$1" "$events"
}

# A failed package without a failed test has leaked goroutines, or has ended before its time.
# gotestsum would run none of its tests again and call that a success.
outside=$(read_events '
  action != "fail" { next }
  test != "" { failed[package] = 1; next }
  { if (!failed[package]) print package; delete failed[package] }' | sort -u)
if [ -n "$outside" ]; then
  echo "failed outside of a test (a leak, an early exit, a build error), not run again:"
  echo "$outside"
  status=1
fi

if [ -n "${TABLE:-}" ]; then
  printf '\n   seconds  result  test\n'
  read_events 'test != "" && action ~ /^(pass|fail|skip)$/ { printf "%10.1f  %-6s  %s\n", elapsed, action, test }'
fi

# Passed after a failure. A parent test fails with its subtest and is not listed beside it.
flaky=$(read_events '
  test == "" { next }
  { key = package " " test }
  action == "fail" { failed[key]++ }
  action == "pass" && failed[key] { passed[key] = 1 }
  END {
    for (key in failed) { up = key; if (sub(/\/[^\/ ]*$/, "", up)) parent[up] = 1 }
    for (key in passed) if (!(key in parent)) print "  " key ", failed " failed[key] " of " failed[key] + 1
  }' | sort)
if [ -n "$flaky" ]; then
  echo "flaky: ($label${WARMPATH_RESULTS:+; output in $events})"
  echo "$flaky"
fi
exit $status
