package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/proxy"
	"github.com/warmpath/warmpath/bench/proxy/mock"
)

func benchProxy(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := newRoot()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs(append([]string{"proxy", "--warm", "10ms", "--time", "100ms", "--timeout", "60s"}, args...))
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// TestBenchProxy: the result is printed, and written as JSON to a file or to standard output, as compare.py reads it.
func TestBenchProxy(t *testing.T) {
	workers, err := mock.New(mock.Config{Listen: "127.0.0.1:0", Workers: 2, Model: mock.DefaultModel, PageSize: 16, CachePages: 4096})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- workers.Run(ctx) }()
	defer func() {
		stop()
		require.NoError(t, <-done)
	}()
	file := filepath.Join(t.TempDir(), "out.json")
	for to, api := range map[string]string{file: "chat", "-": "ids"} {
		args := []string{"--url", strings.Join(workers.Addrs(), ","), "--pid", strconv.Itoa(os.Getpid()), "--api", api, "--connections", "4", "--json", to}
		out, err := benchProxy(t, args...)
		require.NoError(t, err)
		text := []byte(out)
		if to == file {
			require.Contains(t, out, "chat 300 B, 4 at a time")
			text, err = os.ReadFile(file)
			require.NoError(t, err)
		}
		var m proxy.Measurement
		require.NoError(t, json.Unmarshal(text, &m))
		require.Equal(t, api, string(m.API))
		require.Empty(t, m.Errors)
		require.NotNil(t, m.Router)
	}
}

func TestBenchProxyRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"":                                   "url",
		"--url 127.0.0.1:1 --api soap":       "soap",
		"--url 127.0.0.1:1":                  "connect",
		"--url 127.0.0.1:1 --size 10":        "bodies of 10 bytes",
		"--url 127.0.0.1:1 --pid 1073741824": "process",
	} {
		_, err := benchProxy(t, strings.Fields(args)...)
		require.ErrorContains(t, err, want, args)
	}
}
