package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/policies"
)

// bench runs warmpath bench.
func bench(t *testing.T, args ...string) (out, progress string, err error) {
	t.Helper()
	cmd := newBenchCommand()
	var stdout, stderr bytes.Buffer
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func TestBenchPolicies(t *testing.T) {
	dir := t.TempDir()
	html, results := filepath.Join(dir, "out.html"), filepath.Join(dir, "out.json")
	for _, source := range [][]string{
		{"--trace", "../../bench/replay/testdata/mooncake_conversation_200.jsonl"},
		{"--workload", "agents", "--requests", "200"},
	} {
		out, progress, err := bench(t, append([]string{
			"policies", "--policy", "all", "--ablate", "all", "--workers", "4", "--routers", "2", "--share", "gossip", "--html", html, "--json", results,
		}, source...)...)
		require.NoError(t, err)
		assert.Contains(t, out, "200 requests in")
		assert.Contains(t, out, "Recommendation")
		assert.Contains(t, progress, "greedy: 200 of 200")
		text, err := os.ReadFile(results)
		require.NoError(t, err)
		var r policies.Report
		require.NoError(t, json.Unmarshal(text, &r))
		assert.Len(t, r.Results, len(policies.Names())+len(policies.Ablations()))
		page, err := os.ReadFile(html)
		require.NoError(t, err)
		assert.Contains(t, string(page), "<svg")
		again, _, err := bench(t, append([]string{
			"policies", "--policy", "all", "--ablate", "all", "--workers", "4", "--routers", "2", "--share", "gossip",
		}, source...)...)
		require.NoError(t, err)
		assert.Equal(t, out, again, "the same flags give the same numbers")
	}
}

func TestBenchPoliciesRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"--trace", "no such file"},
		{"--workload", "none"},
		{"--policy", "best"},
		{"--requests", "-1"},
		{"--workers", "-2"},
		{"--share", "telepathy"},
		{"--ablate", "luck"},
		{"--queue", "stack"},
		{"--trace", "a", "--workload", "zipf"},
	} {
		_, _, err := bench(t, append([]string{"policies", "--advise=false"}, args...)...)
		assert.Error(t, err, strings.Join(args, " "))
	}
}
