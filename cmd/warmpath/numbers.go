package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// longestDuration is ten years: beyond it a duration is a slip, and times overflow.
const longestDuration = 10 * 365 * 24 * time.Hour

// mostOf are bounds below those of a kind of number: of a machine, a port or a protocol. No other
// number is a billion by intent.
var mostOf = map[string]float64{
	"bootstrap-port": math.MaxUint16, "events-port": math.MaxUint16, "status": 599, "cluster-replicas": 5, "lint-sample": 1, "fail-above": 1,
	"workers": 10_000, "prefill": 10_000, "decode": 10_000, "prefill-workers": 10_000, "node-workers": 10_000, "users": 1_000_000, "dp-size": 1024, "tp-size": 1024,
	"routers": 100, "seeds": 1000, "retries": 100,
	"cache-tokens": 1e12, "host-tokens": 1e12, "tier-tokens": 1e12,
}

// zeroMeans are flags with a default other than zero where a zero is a value of its own.
var zeroMeans = []string{
	"retries", "kv-overlap-score-weight", "kv-tier-prefill", "fail-above", "link-every", "requests", "event-delay", "hop", "warmup", "max-think", "first-token", "seed",
}

// negativeMeans are flags where a negative value says something: none, or another flag's value.
var negativeMeans = []string{"gzip-min-bytes", "index-max-bytes", "queue-max", "disagg-min-uncached", "pair-timeout"}

// checkNumbers refuses numbers of the command line that no command can use.
func checkNumbers(c *cobra.Command) error {
	var errs []error
	c.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if many, isList := f.Value.(pflag.SliceValue); isList {
			values = many.GetSlice()
		}
		for _, v := range values {
			errs = append(errs, checkNumber(f, v))
		}
	})
	return errors.Join(errs...)
}

// checkNumber checks a value of a flag that is a number or a duration.
func checkNumber(f *pflag.Flag, text string) error {
	kind := strings.TrimSuffix(f.Value.Type(), "Slice")
	least, most := 1.0, 1e9
	var value float64
	switch kind {
	case "duration":
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("cannot use --%s %s: %w", f.Name, text, wanted(f, err))
		}
		value, least, most = float64(d), 1, float64(longestDuration)
	case "int", "int64", "uint", "uint32", "uint64", "float64":
		var err error
		if value, err = strconv.ParseFloat(text, 64); err != nil {
			return nil //nolint:nilerr // pflag has parsed it; it is a number of another kind
		}
		switch {
		case kind == "float64":
			least = math.SmallestNonzeroFloat64
		case strings.HasPrefix(kind, "uint"): // seeds, ids and sequence numbers, which pflag bounds
			most = math.MaxUint64
		case strings.HasSuffix(f.Name, "-bytes"):
			most = 1 << 50
		}
	default:
		return nil
	}
	if m := mostOf[f.Name]; m > 0 {
		most = m
	}
	if slices.Contains([]string{"", "0", "0s"}, f.DefValue) || slices.Contains(zeroMeans, f.Name) {
		least = 0
	}
	if slices.Contains(negativeMeans, f.Name) {
		least = -most
	}
	if value >= least && value <= most { // NaN is neither
		return nil
	}
	return fmt.Errorf("cannot use --%s %s: want %s", f.Name, text, rangeWords(kind, least, most))
}

// wanted says which values a flag takes that has refused one with err. Flags of other kinds say it
// themselves.
func wanted(f *pflag.Flag, err error) error {
	if _, own := f.Value.(*retries); own {
		return err
	}
	switch kind := strings.TrimSuffix(f.Value.Type(), "Slice"); kind {
	case "duration":
		return errors.New("want a number with its unit, as in 500ms, 30s or 5m")
	case "int", "int64", "uint", "uint32", "uint64":
		return errors.New("want a whole number")
	case "float64":
		return errors.New("want a number")
	case "bool":
		return errors.New("want true or false")
	}
	return err
}

// rangeWords says which numbers a flag takes.
func rangeWords(kind string, least, most float64) string {
	write := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	if kind == "duration" {
		write = func(v float64) string { return fmt.Sprintf("%.0fh", time.Duration(v).Hours()) }
	}
	switch {
	case least > 0 && kind != "duration" && kind != "float64":
		return write(least) + " to " + write(most)
	case least > 0:
		return "more than 0, at most " + write(most)
	case least < 0:
		return "at most " + write(most)
	}
	return "0 to " + write(most)
}
