package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/proxy"
)

// asBench, when set, makes this test binary the benchmark: it starts its workers as a process.
const asBench = "WARMPATH_TEST_AS_BENCH"

func TestMain(m *testing.M) {
	if os.Getenv(asBench) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// buildWarmpath builds the router once for all tests.
var buildWarmpath = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "warmpath-bench-test")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "warmpath")
	out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", binary, "../../cmd/warmpath").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("cannot build warmpath: %w: %s", err, out)
	}
	return binary, err
})

func benchProxy(t *testing.T, args ...string) (out, progress string, err error) {
	t.Helper()
	warmpath, err := buildWarmpath()
	require.NoError(t, err)
	t.Setenv(asBench, "1")
	cmd := newRoot()
	var stdout, stderr bytes.Buffer
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SetArgs(append([]string{"proxy", "--pin=false", "--warm", "10ms", "--time", "100ms", "--timeout", "60s", "--workers", "2", "--warmpath", warmpath}, args...))
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
