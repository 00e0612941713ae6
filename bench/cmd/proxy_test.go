package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/proxy"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
)

// asBench, when set, makes this test binary the benchmark, which starts its workers as a process, and
// the router before them.
const asBench = "WARMPATH_TEST_AS_BENCH"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(asBench) == "":
		os.Exit(m.Run())
	case len(os.Args) > 1 && os.Args[1] == "serve":
		serve(os.Args[2:])
	default:
		main()
	}
}

// serve is as much of `warmpath serve` as the benchmark needs.
func serve(args []string) {
	cfg := router.Config{Policy: config.Policy{Name: "kv"}, Log: slog.New(slog.DiscardHandler)}
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	flags.StringVar(&cfg.Listen, "listen", "", "")
	flags.String("log-level", "", "")
	flags.Func("worker", "", func(url string) error {
		cfg.Sources.Workers = append(cfg.Sources.Workers, url)
		return nil
	})
	_ = flags.Parse(args) // ends the process where it fails
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	r, err := router.New(cfg)
	if err == nil {
		err = r.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func benchProxy(t *testing.T, args ...string) (out, progress string, err error) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	t.Setenv(asBench, "1")
	cmd := newRoot()
	var stdout, stderr bytes.Buffer
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SetArgs(append([]string{"proxy", "--pin=false", "--warm", "10ms", "--time", "100ms", "--timeout", "60s", "--workers", "2", "--warmpath", self}, args...))
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func TestBenchProxy(t *testing.T) {
	results := filepath.Join(t.TempDir(), "out.json")
	out, progress, err := benchProxy(t, "--rounds", "1", "--rate", "50", "--connections", "4", "--json", results)
	require.NoError(t, err, progress)
	for _, want := range []string{"chat direct", "chat router", "ids direct", "ids router"} {
		require.Contains(t, out, want)
	}
	text, err := os.ReadFile(results)
	require.NoError(t, err)
	var all []*proxy.Measurement
	require.NoError(t, json.Unmarshal(text, &all))
	require.Len(t, all, 8)
	answered := uint64(0) // in all: a machine may stand still for the time of one measurement
	for _, m := range all {
		require.Empty(t, m.Errors)
		answered += m.OK
		require.Equal(t, m.Name == proxy.Router, m.Router != nil)
	}
	require.NotZero(t, answered)
}

func TestBenchProxyRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--api soap":                    "soap",
		"--size 1x":                     "1x",
		"--rounds 0":                    "at least one round",
		"--url 127.0.0.1:1":             "connect",
		"--url 127.0.0.1:1 --memory":    "--pid",
		"--soak 1s --memory":            "soak",
		"--url 127.0.0.1:1 --size 10":   "bodies of 10 bytes",
		"--router-flags --no-such-flag": "the router ended",
	} {
		_, _, err := benchProxy(t, strings.Fields(args)...)
		require.ErrorContains(t, err, want, args)
	}
}
