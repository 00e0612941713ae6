package main

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// learnSpeed sends prompts until the router knows how fast the only worker computes them.
func learnSpeed(t *testing.T, cl *simulation, base string, client *http.Client, rng *rand.Rand) {
	t.Helper()
	testkit.AwaitThat(t, func() bool {
		assert.Equal(t, http.StatusOK, ask(t.Context(), client, base, randomIDs(rng, 8192), 1).status)
		return cl.router.Status().Workers[0].Load.PrefillPerSecond > 0
	}, func() string { return "its speed is not known" })
}

// TestPromptsWaitForTheNextBatch: an engine that always has a waiting prompt ends no answer.
func TestPromptsWaitForTheNextBatch(t *testing.T) {
	cl, base, client := startQueued(t, 1, sim.Config{}, router.Config{})
	rng := rand.New(rand.NewPCG(1, 2))
	learnSpeed(t, cl, base, client, rng)
	const n = 12
	var wg sync.WaitGroup
	for range n {
		ids := randomIDs(rng, 4800) // 0.3 s
		wg.Go(func() { assert.Equal(t, http.StatusOK, ask(t.Context(), client, base, ids, 4).status) })
	}
	awaitQueue(t, cl, "the worker has them all", func(q admin.QueueStatus) bool { return q.Waiting > n/2 })
	wg.Wait()
}

// TestDeadlineThatNoWorkerMeets: a prompt that is computed too late is refused although no other request waits.
func TestDeadlineThatNoWorkerMeets(t *testing.T) {
	cl, base, client := startQueued(t, 1, sim.Config{}, router.Config{})
	rng := rand.New(rand.NewPCG(3, 4))
	learnSpeed(t, cl, base, client, rng)
	list := strings.Repeat("7,", 100_000) + "7" // 6 s
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/generate", strings.NewReader(`{"input_ids":[`+list+`]}`))
	require.NoError(t, err)
	req.Header.Set("X-Warmpath-Deadline", "4")
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.NotEmpty(t, resp.Header.Get("Retry-After"))
	require.Zero(t, cl.router.Status().Workers[0].Load.OwnInFlight)
	a := ask(t.Context(), client, base, randomIDs(rng, 64), 1, "X-Warmpath-Deadline", "3600")
	require.Equal(t, http.StatusOK, a.status)
}
