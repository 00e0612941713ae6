package main

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/router"
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

// TestEveryNumberIsBounded: a number that no command can use is refused by its flag's name, whichever
// command has the flag, before the command does anything.
func TestEveryNumberIsBounded(t *testing.T) {
	// Of these a zero says something of its own, or a negative number does.
	zeros := strings.Fields("retries kv-overlap-score-weight kv-tier-prefill fail-above link-every requests rounds event-delay hop warmup max-think first-token seed")
	negative := strings.Fields("gzip-min-bytes index-max-bytes queue-max disagg-min-uncached pair-timeout")
	numbers := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		c.Flags().VisitAll(func(flag *pflag.Flag) {
			kind, isDefault := strings.TrimSuffix(flag.Value.Type(), "Slice"), flag.Value.String()
			values := map[string]bool{} // whether they are refused
			zero := !slices.Contains(zeros, flag.Name) && !slices.Contains(negative, flag.Name) && !slices.Contains([]string{"0", "0s", ""}, flag.DefValue)
			switch kind {
			case "int", "int64", "uint", "uint32", "uint64":
				values["0"] = zero
				if kind[0] == 'u' {
					break // pflag refuses what is below zero or too long
				}
				values["-1"], values["4000000000000000000"] = !slices.Contains(negative, flag.Name), true
			case "duration":
				values["0s"], values["-1s"], values["2000000h"] = zero, !slices.Contains(negative, flag.Name), true
			case "float64":
				values["0"], values["-1"], values["1e300"], values["NaN"], values["+Inf"], values["-Inf"] = zero, true, true, true, true, true
			default:
				return
			}
			numbers++
			for text, refused := range values {
				if err := flag.Value.Set(text); err != nil { // the flag's own
					assert.True(t, refused, "%s --%s=%s: %v", c.CommandPath(), flag.Name, text, err)
					continue
				}
				err := checkNumber(flag, text)
				if refused {
					assert.ErrorContains(t, err, "cannot use --"+flag.Name+" "+text+": want ", c.CommandPath())
				} else {
					assert.NoError(t, err, "%s --%s=%s", c.CommandPath(), flag.Name, text)
				}
			}
			assert.NoError(t, checkNumber(flag, strings.Trim(isDefault, "[]")), "%s --%s: the default", c.CommandPath(), flag.Name)
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
	assert.Greater(t, numbers, 150, "flags that are numbers")
	for _, line := range []string{
		"sim --workers 0", "sim --dp-size=-1", "up --workers=-1", "drain a --timeout=-1s", "bench policies --speeds 1,NaN", "sim fault slow http://a:1 --factor=Inf", "health --timeout 0s",
	} {
		_, err := command(t, strings.Fields(line)...)
		require.ErrorContains(t, err, "cannot use --", line)
		require.ErrorContains(t, err, ": want ", line)
	}
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

func TestReplicaFlag(t *testing.T) {
	for text, want := range map[string][2]int{"1/1": {0, 1}, "1/4": {0, 4}, "4/4": {3, 4}} {
		var cfg router.Config
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		policyFlags(f, &cfg)
		require.NoError(t, f.Parse([]string{"--replica", text}))
		assert.Equal(t, want, [2]int{cfg.Policy.Options.Replica, cfg.Policy.Options.Replicas})
		assert.Equal(t, text, f.Lookup("replica").Value.String())
	}
	for _, text := range []string{"", "2", "0/2", "3/2", "a/b", "1/2/3", "-1/2"} {
		var cfg router.Config
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.SetOutput(nil)
		policyFlags(f, &cfg)
		require.Error(t, f.Parse([]string{"--replica", text}), text)
	}
}
