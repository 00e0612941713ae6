package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// patience bounds each wait; a passing test comes nowhere near it.
const patience = 2 * time.Minute

// warmpath runs the command line and returns its output.
func warmpath(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestExplainCommand(t *testing.T) {
	cl, base := startCluster(t, 3, sim.Config{}, "kv")
	ids := prompt(800, 1)
	home := generate(t, cl, ids, "").worker
	settle(t, cl)
	list := strings.Trim(fmt.Sprint(ids), "[]") // blanks between them

	out, err := warmpath(t, "", "explain", "--router", base, "--ids", list)
	require.NoError(t, err)
	assert.Contains(t, out, "prompt of 800 tokens (exact)   policy kv")
	assert.Contains(t, out, "goes to "+home+": lowest predicted time to first token")
	lines := strings.Split(out, "\n")
	assert.Equal(t, "-> "+home+"  ready, events live", lines[3])
	assert.Regexp(t, "^     cached 784  credit ", lines[4], "all whole pages but for the last token's")
	assert.Regexp(t, "^     TTFT [0-9.]+ s:  compute ", lines[5])
	assert.Equal(t, 3, strings.Count(out, " ready, "), out)
	for _, line := range lines {
		assert.LessOrEqual(t, len(line), 80, "a terminal's width")
	}

	// The explanation comes true.
	assert.Equal(t, home, generate(t, cl, ids, "").worker)

	// Text, messages, and what the router says of itself.
	file := filepath.Join(t.TempDir(), "chat.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"messages":[{"role":"user","content":"Hello"}]}`), 0o600))
	for _, args := range [][]string{{"--text", "Hello"}, {"--body", file}, {"--body", "-"}} {
		out, err := warmpath(t, `{"prompt":"Hello"}`, append([]string{"explain", "--json", "--seed", "5", "--router", base}, args...)...)
		require.NoError(t, err, args)
		var e admin.Explained
		require.NoError(t, json.Unmarshal([]byte(out), &e))
		assert.Equal(t, "5", e.Seed)
		assert.NotEmpty(t, e.Winner)
		assert.Positive(t, e.Prompt.Tokens)
	}
	for _, args := range [][]string{{}, {"--text", "a", "--ids", "1"}, {"--ids", "1,x"}, {"--body", file + "x"}, {"--text", "a", "--seed", "x"}} {
		_, err := warmpath(t, "", append([]string{"explain", "--router", base}, args...)...)
		assert.Error(t, err, args)
	}
	_, err = warmpath(t, "", "explain", "--router", "http://127.0.0.1:1", "--text", "a")
	assert.ErrorContains(t, err, "is it running")
}

func TestExplainedGPUs(t *testing.T) {
	cost := &admin.ExplainedCost{}
	overlap := &admin.ExplainedOverlap{}
	e := &admin.Explained{
		Winner: "http://b:1", Why: "because", Overruled: "the least bad are used (draining)",
		Ranks: []admin.ExplainedRank{
			{ID: "http://a:1", State: "ready", Cost: cost, Overlap: overlap, Weight: 1, GPUs: &admin.GPUHealthStatus{State: "healthy", Weight: 1}},
			{
				ID: "http://b:1", State: "ready", Winner: true, Cost: cost, Overlap: &admin.ExplainedOverlap{Tier: 64, Remote: 128}, Weight: 0.55,
				GPUs: &admin.GPUHealthStatus{State: "degraded", Weight: 0.55, NoTP: true, Reasons: []string{"clocks at 55 %", "17 of 18 NVLinks up"}, Age: 1.2},
			},
			{
				ID: "http://c:1", State: "ready", Excluded: "has dead GPUs (XID 79), and others are fit",
				GPUs: &admin.GPUHealthStatus{State: "dead", Weight: 1, Reasons: []string{"XID 79"}, Age: 3},
			},
			{ID: "http://d:1", State: "ready", Cost: cost, Overlap: overlap, Weight: 1, GPUs: &admin.GPUHealthStatus{State: "dead", Weight: 1, Doubted: true}},
			{ID: "http://e:1", State: "ready", Cost: cost, Overlap: overlap},
			{ID: "http://f:1", State: "ready", Cost: cost, Overlap: overlap, Weight: 1, GPUs: &admin.GPUHealthStatus{State: "unknown", Weight: 1}},
			{
				ID: "http://g:1", State: "ready", Cost: cost, Overlap: overlap, Weight: 1,
				GPUs: &admin.GPUHealthStatus{State: "unknown", Weight: 1, Reasons: []string{"nothing was heard of its GPUs for 32s; the last was: dead"}, Age: 32},
			},
		},
	}
	var out strings.Builder
	require.NoError(t, writeExplained(&out, e))
	for _, line := range []string{
		"the least bad are used (draining)",
		"http://b:1: GPUs are degraded, 55 % of the speed is left, not to be used together: clocks at 55 %; 17 of 18 NVLinks up (1 s ago)",
		"http://b:1: could fetch 64 tokens from the KV tier of its node, and 128 behind them from a peer's",
		"http://c:1: GPUs are dead: XID 79 (3 s ago)",
		"http://g:1: GPUs are unknown: nothing was heard of its GPUs for 32s; the last was: dead (32 s ago)",
		"http://c:1 is no candidate: it has dead GPUs (XID 79), and others are fit",
	} {
		assert.Contains(t, out.String(), line+"\n")
	}
	assert.Contains(t, out.String(), "http://d:1: GPUs are dead, which is not believed")
	assert.NotContains(t, out.String(), "http://a:1: GPUs", "nothing to say of who is well")
	assert.NotContains(t, out.String(), "http://e:1: GPUs", "nor where nothing is known")
	assert.NotContains(t, out.String(), "http://f:1: GPUs", "nor where nothing is known")
}

func TestExplainPair(t *testing.T) {
	decode := func(id string, transfer float64, winner bool) admin.ExplainedDecode {
		return admin.ExplainedDecode{
			ID: id, State: "ready", Winner: winner, Load: admin.LoadStatus{InFlight: 3, MaxRunning: 64, PoolTokens: 1000},
			Cost: admin.ExplainedDecodeCost{DecodeCost: policy.DecodeCost{Transfer: transfer}, Total: transfer},
		}
	}
	e := &admin.Explained{
		Policy: "kv", Seed: "1", Winner: "p", Why: "lowest", Prompt: admin.ExplainedPrompt{Tokens: 9, Exact: true},
		Ranks: []admin.ExplainedRank{
			{ID: "p", Role: "prefill", State: "ready", Winner: true, Overlap: &admin.ExplainedOverlap{}, Cost: &admin.ExplainedCost{}},
			{ID: "a", Role: "regular", State: "ready", Overlap: &admin.ExplainedOverlap{}, Cost: &admin.ExplainedCost{}},
		},
		Pair: &admin.ExplainedPair{
			Prefill: "p", Decode: "d2", Chosen: true, Why: "least", TTFT: 0.5,
			Decodes: []admin.ExplainedDecode{decode("d3", 3, false), decode("d1", 1, false), decode("d2", 2, true)},
		},
	}
	var out bytes.Buffer
	require.NoError(t, writeExplained(&out, e))
	assert.Contains(t, out.String(), "goes to p: lowest\nand to d2: least\n")
	assert.Regexp(t, `-> p  ready prefill, `, out.String())
	assert.Regexp(t, `best pair: p with d2,\nTTFT 0\.5000 s`, out.String())
	assert.Regexp(t, `(?s)-> d2  ready\n     held 0  3 of 64 in flight  pool 0 used, 0 reserved of 1000\n     transfer 2\.0000 .* d1 .* d3 `, out.String(), "the winner, then by cost")

	e.Pair.Chosen, e.Winner, e.Why, e.Pair.Decodes[2].Winner = false, "a", "alone", false
	out.Reset()
	require.NoError(t, writeExplained(&out, e))
	assert.Contains(t, out.String(), "goes to a: alone\n\n")
	assert.NotContains(t, out.String(), "and to")
}
