package policies_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/policies"
)

// byHand is a worker with times that can be added by hand: 1,000 tokens a second, 10 ms for a
// batch, 100 ms for a decode step, and 1 ms for each request and 10 us for each token of
// context in it.
var byHand = policies.Service{
	PrefillTokensPerSecond: 1000, PrefillBase: 10 * time.Millisecond, ChunkedPrefill: 1000,
	DecodeBase: 100 * time.Millisecond, DecodePerRequest: time.Millisecond, DecodePerToken: 10 * time.Microsecond,
}

func only(t *testing.T, trace []policies.Request, cfg policies.Config, name string) *policies.Result {
	t.Helper()
	r, err := policies.Simulate(t.Context(), "golden", trace, cfg, []string{name}, nil)
	require.NoError(t, err)
	return r.Results[0]
}

// One prompt of 200 tokens: 10 + 200 ms. Two more tokens: 100 + 1 + 201 × 0.01 and 100 + 1 +
// 202 × 0.01 ms.
func TestGoldenOneRequest(t *testing.T) {
	r := only(t, []policies.Request{{Prompt: []policies.Segment{{ID: 1, Tokens: 200}}, Output: 3}},
		policies.Config{Workers: 1, Service: byHand}, "kv")
	assert.Equal(t, 210*time.Millisecond, r.TTFT.Mean)
	assert.Equal(t, 210*time.Millisecond+(103010+103020)*time.Microsecond, r.Latency.Mean)
	assert.Equal(t, 103015*time.Microsecond, r.ITL.Mean)
	assert.Zero(t, r.HitTokens)
	assert.InDelta(t, 1, r.Busy, 1e-9)
}

// The same prompt twice, 1 s apart: the second finds 12 pages of 16, since one token is always
// computed, and computes 8.
func TestGoldenHit(t *testing.T) {
	prompt := []policies.Segment{{ID: 1, Tokens: 200}}
	r := only(t, []policies.Request{{Prompt: prompt, Output: 1}, {At: time.Second, Prompt: prompt, Output: 1}},
		policies.Config{Workers: 1, Service: byHand}, "kv")
	assert.Equal(t, int64(192), r.HitTokens)
	assert.Equal(t, 18*time.Millisecond, r.TTFT.P50)
	assert.Equal(t, 210*time.Millisecond, r.TTFT.P99)
	assert.Equal(t, int64(208), r.Workers[0].Prefilled)
}

// 1,500 tokens are two chunks: 1,000 cut at a page is 992, in 1,002 ms, then 508 in 518 ms. A
// second prompt of 100 tokens, there from the start, rides in the second batch: 508 + 100
// tokens, 618 ms.
func TestGoldenChunks(t *testing.T) {
	r := only(t, []policies.Request{
		{Prompt: []policies.Segment{{ID: 1, Tokens: 1500}}, Output: 1}, {Prompt: []policies.Segment{{ID: 2, Tokens: 100}}, Output: 1},
	}, policies.Config{Workers: 1, Service: byHand}, "round-robin")
	assert.Equal(t, 1620*time.Millisecond, r.TTFT.P50)
	assert.Equal(t, 1620*time.Millisecond, r.TTFT.Max)
}

// A pool of 320 tokens holds one request of 200 + 50 tokens: the second waits for the first to
// end, at 210 ms and 49 steps of 101 ms + (201 + i) × 0.01, i from 0 to 48: 4,949 + 98.49 +
// 11.76 = 5,059.25 ms. It then takes 210 ms.
func TestGoldenPoolWait(t *testing.T) {
	r := only(t, []policies.Request{
		{Prompt: []policies.Segment{{ID: 1, Tokens: 200}}, Output: 50}, {Prompt: []policies.Segment{{ID: 2, Tokens: 200}}, Output: 1},
	}, policies.Config{Workers: 1, Service: byHand, CacheTokens: 320}, "round-robin")
	assert.Equal(t, 210*time.Millisecond, r.TTFT.P50)
	assert.Equal(t, (210+5059+210)*time.Millisecond+250*time.Microsecond, r.TTFT.Max)
}

// Host memory: three prompts of 320 tokens in turn through a pool of 640. The fourth request,
// the first prompt again, finds nothing on the GPU and 19 pages in host memory: 304 tokens at
// 10,000 a second are 30.4 ms, 16 computed, 10 for the batch.
func TestGoldenHostTier(t *testing.T) {
	service := byHand
	service.HostTokensPerSecond = 10_000
	var trace []policies.Request
	for i, id := range []uint64{1, 2, 3, 1} {
		trace = append(trace, policies.Request{At: time.Duration(i) * time.Second, Prompt: []policies.Segment{{ID: id, Tokens: 320}}, Output: 1})
	}
	r := only(t, trace, policies.Config{Workers: 1, Service: service, CacheTokens: 640, HostTokens: 10_000}, "kv")
	assert.Equal(t, int64(304), r.HostTokens)
	assert.Equal(t, int64(304), r.HitTokens)
	assert.Equal(t, 330*time.Millisecond, r.TTFT.Max)
	best := only(t, trace, policies.Config{Workers: 1, Service: service, CacheTokens: 640}, "kv")
	assert.Zero(t, best.HitTokens, "without it, nothing")
	assert.Equal(t, (330*3+56)*time.Millisecond+400*time.Microsecond, 4*r.TTFT.Mean)
}

// Prefill apart: 200 tokens in 210 ms, 100 ms to send them at 2,000 a second, then the decoding
// worker's steps.
func TestGoldenPools(t *testing.T) {
	r := only(t, []policies.Request{{Prompt: []policies.Segment{{ID: 1, Tokens: 200}}, Output: 2}},
		policies.Config{Workers: 2, Service: byHand, Pools: policies.Pools{Prefill: 1, TransferTokensPerSecond: 2000}}, "kv")
	assert.Equal(t, 310*time.Millisecond, r.TTFT.Mean)
	assert.Equal(t, 310*time.Millisecond+103010*time.Microsecond, r.Latency.Mean)
}

// Two chats on two workers. Round robin sends each second turn to the other worker, which
// computes all of it; kv does not.
func TestGoldenRouting(t *testing.T) {
	seg := func(id uint64, n int) policies.Segment { return policies.Segment{ID: id, Tokens: n} }
	at := func(s int) time.Duration { return time.Duration(s) * time.Second }
	trace := []policies.Request{
		{At: at(0), Prompt: []policies.Segment{seg(1, 160)}, Output: 1},
		{At: at(1), Prompt: []policies.Segment{seg(2, 160)}, Output: 1},
		{At: at(2), Prompt: []policies.Segment{seg(3, 160)}, Output: 1},
		{At: at(3), Prompt: []policies.Segment{seg(1, 160), seg(4, 160)}, Output: 1},
		{At: at(4), Prompt: []policies.Segment{seg(2, 160), seg(5, 160)}, Output: 1},
	}
	cfg := policies.Config{Workers: 2, Service: byHand}
	assert.Zero(t, only(t, trace, cfg, "round-robin").HitTokens)
	for _, name := range []string{"kv", policies.Greedy, "dynamo", "lmetric"} {
		r := only(t, trace, cfg, name)
		assert.Equal(t, int64(320), r.HitTokens, name)
		assert.Equal(t, 170*time.Millisecond, r.TTFT.Max, name)
	}
}
