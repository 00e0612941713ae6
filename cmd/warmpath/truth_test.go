package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// TestOverlapOfComputedPrompts: an engine computes the part of a prompt whose log probabilities are wanted, and the header says what it
// takes from its cache for this request.
func TestOverlapOfComputedPrompts(t *testing.T) {
	cl, _ := startCluster(t, 1, sim.Config{}, "kv")
	ids := prompt(200, 1)
	generate(t, cl, ids, "")
	for _, more := range []string{
		"", `,"return_logprob":true`, `,"return_logprob":true,"logprob_start_len":-1`, `,"logprob_start_len":0`,
		`,"return_logprob":true,"logprob_start_len":0`, `,"return_logprob":true,"logprob_start_len":17`, `,"return_logprob":true,"logprob_start_len":100`,
		`,"return_logprob":true,"logprob_start_len":199`, `,"return_logprob":true,"logprob_start_len":200`, `,"return_logprob":false,"logprob_start_len":3`,
	} {
		r := generate(t, cl, ids, more)
		assert.Equal(t, r.cached, r.matched*page, "with %s", more)
		assert.Equal(t, "exact", r.source, "with %s", more)
	}
}

// TestOverlapWithoutACache: a worker with --disable-radix-cache finds nothing, and that is exact.
func TestOverlapWithoutACache(t *testing.T) {
	cl, base := startCluster(t, 1, sim.Config{NoCache: true}, "kv")
	ids := prompt(400, 1)
	for range 5 {
		r := send(t, base, ids, "")
		assert.Zero(t, r.cached)
		assert.Zero(t, r.matched)
		assert.Equal(t, "exact", r.source)
	}
	st := cl.router.Status()
	testkit.AwaitThat(t, func() bool { st = cl.router.Status(); return st.Requests == 5 && st.InFlight == 0 }, func() string { return "requests have not ended" })
	assert.Zero(t, st.HitTokens)
	assert.Zero(t, st.Workers[0].ApproxTokens)
}

// TestExtraKeyIsApart: events name the blocks of a prompt with an extra_key as those of the plain prompt, which finds none of them.
func TestExtraKeyIsApart(t *testing.T) {
	cl, _ := startCluster(t, 1, sim.Config{}, "kv")
	for i, ids := range [][]uint32{prompt(200, 1), prompt(333, 2), prompt(64, 3)} {
		long := append(append([]uint32{}, ids...), prompt(100, 100+i)...)
		generate(t, cl, ids, `,"extra_key":"tenant-a"`)
		generate(t, cl, ids, `,"extra_key":"tenant-b"`)
		for step, more := range []string{"", "", `,"extra_key":"tenant-a"`, "", `,"extra_key":"tenant-c"`, ""} {
			prompt := ids
			if step >= 3 {
				prompt = long
			}
			r := generate(t, cl, prompt, more)
			if more == "" {
				assert.Equal(t, r.cached, r.matched*page, "prompt %d, step %d", i, step)
				assert.Equal(t, "exact", r.source)
			} else {
				assert.Equal(t, "approximate", r.source, fmt.Sprintf("prompt %d, step %d", i, step))
			}
		}
	}
}

// TestSilentReplay: a lost event and a replay endpoint that does not answer end the claim to know exactly at once, and events that come
// afterwards are known soon; when replays answer, all is known.
func TestSilentReplay(t *testing.T) {
	t.Parallel()
	cl, base := startCluster(t, 1, sim.Config{}, "kv")
	old, lost := prompt(200, 1), prompt(200, 2)
	generate(t, cl, old, "")
	settle(t, cl)
	faults := cl.sims[0].Faults()
	faults.SilenceReplays(true)
	faults.DropEvents(1, false)
	send(t, base, lost, "")
	// Events of an answer come within moments, and the first one behind the hole shows it.
	testkit.AwaitThat(t, func() bool {
		r := send(t, base, prompt(200, 3), "")
		return r.source != "exact"
	}, func() string { return "a rank with a hole in its events is called exact" })
	testkit.AwaitThat(t, func() bool {
		st := cl.router.Status().Workers[0].Events.State
		assert.NotEqual(t, "live", st)
		return st == "degraded"
	}, func() string { return "its replay is waited for" })
	fresh := prompt(200, 4)
	testkit.AwaitThat(t, func() bool {
		send(t, base, fresh, "")
		r := send(t, base, fresh, "")
		assert.NotEqual(t, "exact", r.source)
		return r.matched*page == r.cached && r.cached > 0
	}, func() string { return "new events are not heard" })

	faults.SilenceReplays(false)
	testkit.AwaitThat(t, func() bool { return cl.router.Status().Workers[0].Overlap == "exact" }, func() string { return "it is not learnt again" })
	for _, ids := range [][]uint32{old, lost, fresh} {
		r := generate(t, cl, ids, "")
		assert.Equal(t, "exact", r.source)
		assert.Equal(t, r.cached, r.matched*page)
		assert.Positive(t, r.cached)
	}
}
