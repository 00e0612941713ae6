package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// completions returns what a shell gets for a command line.
func completions(t *testing.T, line ...string) []string {
	t.Helper()
	var out strings.Builder
	root := newRoot()
	root.SetOut(&out)
	root.SetErr(new(strings.Builder))
	root.SetArgs(append([]string{"__complete"}, line...))
	require.NoError(t, root.Execute())
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Equal(t, ":4", lines[len(lines)-1], "no files are offered for %q", line)
	return lines[:len(lines)-1]
}

// TestCompletions: shells know the values of flags and arguments.
func TestCompletions(t *testing.T) {
	router := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/workers" && r.Header.Get("Authorization") == "Bearer k" {
			_, _ = w.Write([]byte(`{"workers":[{"url":"http://gpu1:30000","node":"gpu-a"},{"url":"http://gpu2:30000"}]}`))
		}
	}))
	defer router.Close()
	for _, c := range []struct{ line, want string }{
		{"serve --policy ", "kv"},
		{"up --policy ", "lmetric"},
		{"bench policies --policy ", "greedy"},
		{"serve --kv-without ", "queue"},
		{"serve --log-format ", "json"},
		{"serve --answer-headers ", "operators"},
		{"sim fault cr", "crash"},
		{"token ", "operator"},
		{"drain --operator-key k --router " + router.URL + " http://gpu2", "http://gpu2:30000"},
		{"undrain --operator-key k --router " + router.URL + " ", "http://gpu1:30000"},
		{"cordon --operator-key k --router " + router.URL + " ", "http://gpu1:30000"},
		{"uncordon --operator-key k --router " + router.URL + " gpu", "gpu-a"},
		{"remove --operator-key k --router " + router.URL + " ", "http://gpu2:30000"},
	} {
		got := completions(t, strings.Split(c.line, " ")...)
		require.Contains(t, got, c.want, c.line)
	}
	require.Equal(t, []string{"crash"}, completions(t, "sim", "fault", "cr"))
	require.Empty(t, completions(t, "drain", "http://gpu1:30000", ""), "there is one target")
	t.Setenv(routerEnv, router.URL)
	t.Setenv(envName("operator-key"), "k")
	require.NotContains(t, completions(t, "remove", ""), "gpu-a", "a router removes workers alone")
	t.Setenv(envName("operator-key"), "")

	// Files are offered where a file is meant, and folders where a folder is.
	for _, line := range []string{"serve --retries ", "serve --probe-interval ", "serve --listen ", "top --router ", "serve ", "up ", "bench policies --rate "} {
		require.Empty(t, completions(t, strings.Split(line, " ")...), line)
	}
	for line, directive := range map[string]string{"serve --tls-cert ": ":0", "serve --config ": ":0", "serve --cluster-store ": ":16", "man ": ":16", "lint ": ":0"} {
		var out strings.Builder
		root := newRoot()
		root.SetOut(&out)
		root.SetErr(new(strings.Builder))
		root.SetArgs(append([]string{"__complete"}, strings.Split(line, " ")...))
		require.NoError(t, root.Execute())
		require.Equal(t, directive+"\n", out.String(), line)
	}
}
