package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// checkSettings runs `warmpath config --check`, which reads settings as serve does.
func checkSettings(args ...string) error {
	root := newRoot()
	root.SetOut(io.Discard)
	root.SetErr(new(bytes.Buffer))
	root.SetArgs(append([]string{"config", "--check", "--worker", "http://a:1"}, args...))
	return root.Execute()
}

// TestNumbersOutOfRange: no flag that is a number takes any: a negative one is refused by its name, and so
// is a zero that would silently be the default, and what is no number of its unit.
func TestNumbersOutOfRange(t *testing.T) {
	newServeCommand().Flags().VisitAll(func(flag *pflag.Flag) {
		if strings.HasPrefix(flag.Name, "cluster-") && flag.Value.Type() == "int" {
			return // the cluster checks it
		}
		var bad []string
		switch flag.Value.Type() {
		case "int", "int64":
			bad = []string{"-7"}
		case "duration":
			if bad = []string{"-3s", "1us"}; flag.Name == "pair-timeout" { // below zero --first-byte-timeout counts
				bad = nil
			}
		case "float64":
			bad = []string{"-1", "NaN"}
		default:
			return
		}
		if flag.DefValue != "0" && flag.DefValue != "0s" && flag.Value.Type() != "float64" && flag.Name != "retries" {
			bad = append(bad, "0")
		}
		for _, value := range bad {
			assert.ErrorContains(t, checkSettings("--"+flag.Name+"="+value), "--"+flag.Name, "--%s=%s", flag.Name, value)
		}
	})
	for _, args := range []string{
		"--retries=0", "--queue-max=-1", "--index-max-bytes=-1", "--gzip-min-bytes=-1", "--disagg-min-uncached=-1", "--kv-overlap-score-weight=0",
		"--router-temperature=0.5", "--lint-sample=1", "--quarantine=0s", "--max-clients=0", "--hang-after=10s",
	} {
		require.NoError(t, checkSettings(args), args)
	}
	require.Error(t, checkSettings("--lint-sample", "1.5"))
	require.Error(t, checkSettings("--retries", "99999999"))
}

// TestNoRetries: 0 retries are none, and not the default.
func TestNoRetries(t *testing.T) {
	o := serveOptions{}
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.flags(f)
	require.Equal(t, 3, o.cfg.Requests.Retries)
	require.NoError(t, f.Parse([]string{"--retries", "0"}))
	require.Negative(t, o.cfg.Requests.Retries)
	require.Equal(t, "0", f.Lookup("retries").Value.String())
}

// TestWorkersWithoutAScheme: a worker may be named as host:port.
func TestWorkersWithoutAScheme(t *testing.T) {
	for _, url := range []string{"gpu1:30000", "10.0.0.1:30000", "[::1]:30000", "localhost:30000/"} {
		require.NoError(t, checkSettings("--worker", url), url)
		require.NoError(t, checkSettings("--prefill", url+",8998"), url)
	}
	for _, url := range []string{"gpu1", "gpu1:", "gpu1:x", "ftp://gpu1:1", ":30000", "gpu1:30000/v1"} {
		require.Error(t, checkSettings("--worker", url), url)
	}
	require.ErrorContains(t, checkSettings("--worker", "gpu1"), "host:port")
	require.False(t, strings.Contains(checkSettings("--worker", "gpu1").Error(), "first path segment"))
}
