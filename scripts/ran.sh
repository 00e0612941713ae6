#!/bin/bash
# Runs a command that prints what `go test -v` prints, and then a table of the tests: seconds (of all
# tries), result (of the last try), name. A test that failed and then passed is named as flaky.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
awk '
function note(name, result, seconds) {
	if (!(name in last)) names[++n] = name
	if (last[name] == "FAIL" && result != "FAIL") flaky[name]
	last[name] = result
	sum[name] += seconds
}
/^ *--- (PASS|FAIL|SKIP): / { note($3, substr($2, 1, 4), substr($4, 2)) }
/^(ok|FAIL)[ \t]+[^ \t]/ { note($2, $1, $3) }
END {
	print "\n   seconds  result  test"
	for (i = 1; i <= n; i++) printf "%10.1f  %-6s  %s\n", sum[names[i]], last[names[i]], names[i]
	for (i = 1; i <= n; i++) if (names[i] in flaky && names[i] ~ /^Test/) print "flaky: " names[i]
}' "$log"
exit "$status"
