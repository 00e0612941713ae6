package main

import (
	"strings"

	"github.com/spf13/pflag"
)

// meant returns the setting that is spelled most like an unknown name.
func meant(f *pflag.FlagSet, name string) string {
	best, least := "", len(name)/2+1 // more changes than that are another word
	f.VisitAll(func(flag *pflag.Flag) {
		if notSetting(flag.Name) {
			return
		}
		if d := distance(strings.ReplaceAll(strings.ToLower(name), "_", "-"), flag.Name); d < least {
			best, least = flag.Name, d
		}
	})
	switch {
	case name == configFlag:
		return ": a file cannot name another one"
	case best == "":
		return ""
	default:
		return ": is " + best + " meant?"
	}
}

// distance is the Levenshtein distance of a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		above := row[0] // of the letter before
		row[0] = i + 1
		for j := range len(b) {
			change := above
			if a[i] != b[j] {
				change++
			}
			above = row[j+1]
			row[j+1] = min(change, row[j]+1, above+1)
		}
	}
	return row[len(b)]
}
