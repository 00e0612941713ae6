package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// startQueued runs a router over simulated workers that are soon full.
func startQueued(t *testing.T, workers int, worker sim.Config, router router.Config) (cl *simulation, base string, client *http.Client) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	worker.Log, router.Log = log, log
	router.Listen = "127.0.0.1:0"
	router.Queue.Timeout = cmp.Or(router.Queue.Timeout, 16*time.Hour) // nobody is overdue
	unhurried(&router)
	cl, base = startWith(t, clusterSize{workers: workers}, worker, router)
	client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}
	t.Cleanup(client.CloseIdleConnections) // before the router ends
	return cl, base, client
}

// asked is one answered request.
type asked struct {
	status     int
	retryAfter string
	worker     string
	ttft       time.Duration
	prompt     int
	cached     int
	err        error
}

// ask sends ids with /generate as a stream and reads the answer.
func ask(ctx context.Context, client *http.Client, base string, ids []uint32, output int, header ...string) (a asked) {
	list, err := json.Marshal(ids)
	if err != nil {
		return asked{err: err}
	}
	body := fmt.Sprintf(`{"input_ids":%s,"stream":true,"sampling_params":{"max_new_tokens":%d,"ignore_eos":true}}`, list, output)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/generate", strings.NewReader(body))
	if err != nil {
		return asked{err: err}
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return asked{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	a.status, a.retryAfter, a.worker = resp.StatusCode, resp.Header.Get("Retry-After"), resp.Header.Get("X-Warmpath-Worker")
	lines, last := bufio.NewReader(resp.Body), ""
	for {
		line, err := lines.ReadString('\n')
		if a.ttft == 0 {
			a.ttft = time.Since(began)
		}
		if data, ok := strings.CutPrefix(line, "data: {"); ok {
			last = "{" + data
		}
		if err != nil {
			if err != io.EOF {
				a.err = err
			}
			break
		}
	}
	var end struct {
		Meta struct {
			Prompt int `json:"prompt_tokens"`
			Cached int `json:"cached_tokens"`
		} `json:"meta_info"`
	}
	if a.status == http.StatusOK {
		a.err = json.Unmarshal([]byte(last), &end)
	}
	a.prompt, a.cached = end.Meta.Prompt, end.Meta.Cached
	return a
}

func randomIDs(rng *rand.Rand, n int) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = 1000 + rng.Uint32N(20_000)
	}
	return ids
}

// awaitQueue waits until ok says so of the queue.
func awaitQueue(t *testing.T, cl *simulation, what string, ok func(admin.QueueStatus) bool) {
	t.Helper()
	testkit.AwaitThat(t, func() bool { return ok(*cl.router.Status().Queue) }, func() string { return fmt.Sprintf("%s: %+v", what, *cl.router.Status().Queue) })
}

// fill has the only worker, which has room for one request, stall with it until its client leaves.
func fill(t *testing.T, cl *simulation, base string, client *http.Client) (leave func()) {
	t.Helper()
	require.NoError(t, cl.sims[0].Faults().Apply(sim.Fault{Kind: "stall"}))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { ask(ctx, client, base, randomIDs(rand.New(rand.NewPCG(5, 6)), 64), 8) })
	awaitQueue(t, cl, "the worker is not full", func(q admin.QueueStatus) bool { return q.FullModels == 1 })
	leave = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(leave)
	return leave
}

// inTurns sends requests of several groups, whose prompts share a long beginning, one of each group
// after the other, to a full worker that runs one at a time and whose cache holds half of the groups.
// It returns how many of the tokens were cached.
func inTurns(t *testing.T, groups, each, prefix int, fifo bool) (cached int) {
	t.Helper()
	cl, base, client := startQueued(t, 1, sim.Config{CachePages: groups / 2 * prefix / page, TimeScale: 20},
		router.Config{Queue: config.Queue{FIFO: fifo}, Requests: config.Requests{MaxInFlight: 1}})
	rng := rand.New(rand.NewPCG(1, 2))
	unblock := fill(t, cl, base, client)
	var wg sync.WaitGroup
	shared := make([][]uint32, groups)
	for g := range shared {
		shared[g] = randomIDs(rng, prefix)
	}
	answers := make([]asked, groups*each)
	for i := range answers {
		ids := slices.Concat(shared[i%groups], randomIDs(rng, 64))
		wg.Go(func() { answers[i] = ask(t.Context(), client, base, ids, 8) })
		awaitQueue(t, cl, "it does not wait", func(q admin.QueueStatus) bool { return q.Waiting == i+1 })
	}
	unblock()
	wg.Wait()
	for _, a := range answers {
		require.NoError(t, a.err)
		require.Equal(t, http.StatusOK, a.status)
		cached += a.cached
	}
	return cached
}

// TestDepthFirstKeepsBranchesWarm: depth first, each group is computed once. In turns, the cache has
// lost a group when its next request comes.
func TestDepthFirstKeepsBranchesWarm(t *testing.T) {
	const groups, each, prefix = 6, 4, 1024
	require.Equal(t, groups*(each-1)*prefix, inTurns(t, groups, each, prefix, false))
	require.Zero(t, inTurns(t, groups, each, prefix, true))
}

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
