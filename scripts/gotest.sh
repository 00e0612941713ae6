#!/bin/bash
# Runs tests so that the verdict can be believed: go test, and a failed test twice more, alone.
#
#   gotest.sh LABEL "PACKAGES" [flags of go test]
#
# A test that fails three times fails the run. One that fails and then passes is printed under
# "flaky:"; it is a fault to mend. Panics, data races, leaked goroutines and build errors are never
# run again. $WARMPATH_RESULTS, if it names a folder, keeps LABEL.json, all output of all runs.
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

go run "$GOTESTSUM" --format pkgname-and-test-fails --format-icons text --hide-summary skipped \
  --jsonfile "$events" --packages "$packages" \
  --rerun-fails=2 --rerun-fails-max-failures 10 --rerun-fails-abort-on-data-race -- "$@"
status=$?

# A failed package without a failed test has leaked goroutines, or has ended before its time.
# gotestsum would run none of its tests again and call that a success.
outside=$(awk '
  function field(name) { return match($0, "\"" name "\":\"[^\"]*\"") ? substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 5) : "" }
  { sub(/"Output":.*/, "") }
  !/"Action":"fail"/ { next }
  field("Test") != "" { failed[field("Package")] = 1; next }
  { if (!failed[field("Package")]) print field("Package"); delete failed[field("Package")] }
' "$events" | sort -u)
if [ -n "$outside" ]; then
  echo "failed outside of a test (a leak, an early exit, a build error), not run again:"
  echo "$outside"
  status=1
fi

# Passed after a failure. A parent test fails with its subtest and is not listed beside it.
flaky=$(awk '
  function field(name) { return match($0, "\"" name "\":\"[^\"]*\"") ? substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 5) : "" }
  { sub(/"Output":.*/, ""); if (field("Test") == "") next; key = field("Package") " " field("Test") }
  /"Action":"fail"/ { failed[key]++ }
  /"Action":"pass"/ && failed[key] { passed[key] = 1 }
  END {
    for (key in failed) { up = key; if (sub(/\/[^\/ ]*$/, "", up)) parent[up] = 1 }
    for (key in passed) if (!(key in parent)) print "  " key ", failed " failed[key] " of " failed[key] + 1
  }
' "$events" | sort)
if [ -n "$flaky" ]; then
  echo "flaky: ($label; output in $events)"
  echo "$flaky"
fi
exit $status
