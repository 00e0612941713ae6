package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

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
