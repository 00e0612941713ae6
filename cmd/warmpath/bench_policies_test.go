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
	results := filepath.Join(dir, "out.json")
	for _, source := range [][]string{
		{"--trace", "../../bench/replay/testdata/mooncake_conversation_200.jsonl"},
		{"--workload", "agents", "--requests", "200"},
	} {
		out, progress, err := bench(t, append([]string{
			"policies", "--policy", "all", "--ablate", "all", "--workers", "4", "--routers", "2", "--share", "gossip", "--json", results,
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
		if source[0] == "--trace" {
			continue
		}
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

func TestBenchPoliciesOfUsers(t *testing.T) {
	sessions := []string{"policies", "--sessions", "../../bench/trace/testdata/sessions.jsonl", "--workers", "2", "--warmup", "1m", "--for", "3m", "--policy", "kv,sticky-sessions"}
	out, progress, err := bench(t, append(sessions, "--users", "6", "--share-system", "--max-think", "1m")...)
	require.NoError(t, err)
	assert.Contains(t, out, "6 users, measured for 3m0s after 1m0s, pauses of at most 1m0s")
	assert.Contains(t, out, "no router can find more than")
	assert.Contains(t, progress, "sticky-sessions")
	assert.NotContains(t, out, "Recommendation", "it is about traces")
	out, progress, err = bench(t, append(sessions, "--find-users", "--ttft-p95", "9s", "--seeds", "1")...)
	require.NoError(t, err)
	assert.Contains(t, out, "Users that 2 workers carry at p95 of TTFT <= 9s, ITL <= 50ms")
	assert.Contains(t, progress, "kv, 16 users: TTFT p95")
	out, _, err = bench(t, append(sessions, "--advise=false")...)
	require.NoError(t, err)
	assert.Contains(t, out, "97 requests in", "an open loop without users, and without the longest prompts")
	for _, args := range [][]string{
		{"--users", "3"},
		{"--find-users"},
		{"--sessions", "no such file", "--users", "3"},
		{"--sessions", "../../bench/replay/testdata/mooncake_conversation_200.jsonl"},
		{"--sessions", "../../bench/trace/testdata/sessions.jsonl", "--users", "-1"},
		{"--sessions", "../../bench/trace/testdata/sessions.jsonl", "--users", "3", "--rate", "2"},
		{"--sessions", "../../bench/trace/testdata/sessions.jsonl", "--find-users", "--seeds", "0"},
		{"--sessions", "../../bench/trace/testdata/sessions.jsonl", "--trace", "a"},
	} {
		_, _, err := bench(t, append([]string{"policies", "--advise=false"}, args...)...)
		assert.Error(t, err, strings.Join(args, " "))
	}
}
