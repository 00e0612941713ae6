package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
	"github.com/warmpath/warmpath/dataplane/testkit"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

const page = 16

// startCluster runs a router over simulated workers, with real sockets
// between them, until the test ends.
func startCluster(t *testing.T, workers int, worker sim.Config, policy string) (cl *simulation, base string) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	worker.Log, worker.TimeScale = log, 50
	router := router.Config{Listen: "127.0.0.1:0", Policy: config.Policy{Name: policy}, Log: log}
	unhurried(&router)
	return startWith(t, clusterSize{workers: workers}, worker, router)
}

// startWith runs a simulated cluster and waits until it is ready.
func startWith(t *testing.T, size clusterSize, worker sim.Config, router router.Config) (cl *simulation, base string) {
	t.Helper()
	cl, err := newCluster(size, worker, router)
	require.NoError(t, err)
	return cl, runCluster(t, cl, size.workers*max(worker.DPSize, 1))
}

// runCluster runs a cluster and waits until the router knows so many ranks.
func runCluster(t *testing.T, cl *simulation, ranks int) (base string) {
	t.Helper()
	runTo(t, cl.run)
	awaitCluster(t, cl, ranks)
	return "http://" + cl.router.Addr()
}

// runTo runs a process's part until the test ends.
func runTo(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
}

// unhurried has a router look at its workers often, and hold it against none that this machine, which may be busy, lets it wait for an answer.
func unhurried(cfg *router.Config) {
	cfg.Probes.Interval, cfg.Probes.Timeout, cfg.Probes.HangAfter, cfg.Cluster.Wait = 20*time.Millisecond, patience, patience, patience
}

// awaitCluster waits until n ranks are ready and their events are followed.
func awaitCluster(t *testing.T, cl *simulation, n int) {
	t.Helper()
	testkit.AwaitThat(t, func() bool {
		live := 0
		for _, w := range cl.router.Status().Workers {
			if w.State == "ready" && (w.Events.State == "live" || w.Events.State == "none") {
				live++
			}
		}
		return live >= n
	}, func() string { return fmt.Sprintf("the cluster is not ready: %+v", cl.router.Status().Workers) })
}

// settle waits until all requests are over for the router, too, and it has heard all that the workers have to tell of them.
func settle(t *testing.T, cl *simulation) {
	t.Helper()
	testkit.AwaitThat(t, func() bool { return unheard(cl) == "" }, func() string { return unheard(cl) })
}

// busy describes the requests and events that the router has in hand.
func busy(cl *simulation) string {
	st := cl.router.Status()
	if st.InFlight != 0 {
		return fmt.Sprintf("%d requests are in flight", st.InFlight)
	}
	for i := range st.Workers {
		if w := &st.Workers[i]; w.InFlight != 0 || w.PendingTokens != 0 {
			return fmt.Sprintf("%s has %d in flight and %d tokens pending", w.ID, w.InFlight, w.PendingTokens)
		}
	}
	return ""
}

// unheard is busy, and the batches of its workers that the router has not heard yet.
func unheard(cl *simulation) string {
	if what := busy(cl); what != "" {
		return what
	}
	told := map[string][]uint64{}
	for _, w := range cl.sims {
		batches, rests := w.Batches()
		if batches != nil && !rests {
			return w.URL() + " works"
		}
		told[w.URL()] = batches
	}
	for _, w := range cl.router.Status().Workers {
		if batches := told[w.URL]; batches != nil && w.Role != "decode" && w.Events.State != "none" && (w.Events.Sequence+1 != batches[w.Rank] || w.Events.State != "live") {
			return fmt.Sprintf("%s has told %d batches, and %d is the last that was heard: %s", w.ID, batches[w.Rank], w.Events.Sequence, w.Events.State)
		}
	}
	return ""
}

// reply is an answer of /generate with the router's headers.
type reply struct {
	worker, source string
	matched, total int
	ids            []uint32
	prompt, cached int
}

// generate sends ids when the router knows all that happened before.
func generate(t *testing.T, cl *simulation, ids []uint32, more string) reply {
	t.Helper()
	settle(t, cl)
	return send(t, "http://"+cl.router.Addr(), ids, more)
}

// send sends ids at once.
func send(t *testing.T, base string, ids []uint32, more string) reply {
	t.Helper()
	body, err := json.Marshal(ids)
	require.NoError(t, err)
	text := fmt.Sprintf(`{"input_ids":%s,"sampling_params":{"max_new_tokens":40,"ignore_eos":true}%s}`, body, more)
	resp, err := http.Post(base+"/generate", "application/json", strings.NewReader(text))
	require.NoError(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", answer)
	var a struct {
		IDs  []uint32 `json:"output_ids"`
		Meta struct {
			Prompt int `json:"prompt_tokens"`
			Cached int `json:"cached_tokens"`
		} `json:"meta_info"`
	}
	require.NoError(t, json.Unmarshal(answer, &a))
	r := reply{worker: resp.Header.Get("X-Warmpath-Worker"), ids: a.IDs, prompt: a.Meta.Prompt, cached: a.Meta.Cached}
	r.source = resp.Header.Get("X-Warmpath-Overlap-Source")
	_, err = fmt.Sscanf(resp.Header.Get("X-Warmpath-Overlap"), "%d/%d", &r.matched, &r.total)
	require.NoError(t, err)
	return r
}

func prompt(n, seed int) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = uint32(1000 + (i*31+seed*7919)%20000)
	}
	return ids
}

// Every encoding that SGLang and vLLM have had leads to the same exact routing, turn after turn, of
// short prompts and of long ones.
func TestOverlapIsExactInEveryEncoding(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"0.5.8", "0.5.15", "0.5.18", "0.5.21", "0.5.23", "vllm"} {
		t.Run(name, func(t *testing.T) {
			encoding, err := kvevent.ParseEncoding(name)
			require.NoError(t, err)
			cl, _ := startCluster(t, 3, sim.Config{EventConfig: sim.EventConfig{Encoding: encoding}, DPSize: 1}, "kv")
			for conversation := range 3 {
				history, home := prompt(200, conversation), ""
				if conversation == 2 {
					history = append(prompt(2500, 7), prompt(2500, 100+conversation)...)
				}
				for turn := range 3 {
					r := generate(t, cl, history, "")
					assert.Equal(t, r.cached, r.matched*page, "conversation %d turn %d", conversation, turn)
					assert.Equal(t, []int{len(history), len(history) / page}, []int{r.prompt, r.total}, "the worker sees every id")
					if turn > 0 {
						assert.Equal(t, home, r.worker, "a turn follows its conversation")
						assert.Positive(t, r.cached)
					}
					home = r.worker
					history = append(append(history, r.ids...), prompt(30, 100*conversation+turn)...)
				}
			}
			for _, w := range cl.router.Status().Workers {
				assert.Zero(t, w.Events.Malformed+w.Events.UnknownEvents+w.Events.UnknownParents+w.Events.UnknownRemovals)
			}
		})
	}
}

func TestSaltsAreApart(t *testing.T) {
	cl, _ := startCluster(t, 1, sim.Config{}, "kv")
	ids := prompt(200, 1)
	generate(t, cl, ids, `,"cache_salt":"tenant-a"`)
	for _, salt := range []string{`,"cache_salt":"tenant-b"`, ""} {
		r := generate(t, cl, ids, salt)
		assert.Zero(t, r.matched)
		assert.Zero(t, r.cached)
	}
	r := generate(t, cl, ids, `,"cache_salt":"tenant-a"`)
	assert.Equal(t, r.cached, r.matched*page)
	assert.Positive(t, r.cached)
}

func TestTextIsExactThroughTheWorkersTokenizer(t *testing.T) {
	cl, base := startCluster(t, 2, sim.Config{}, "kv")
	ask := func() (matched, cached int) {
		settle(t, cl)
		body := `{"model":"simulated","max_tokens":20,"messages":[{"role":"system","content":"` +
			strings.Repeat("be brief and kind ", 40) + `"},{"role":"user","content":"hello there"}]}`
		resp, err := http.Post(base+"/v1/chat/completions", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		defer resp.Body.Close()
		var a struct {
			Usage struct {
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			} `json:"usage"`
		}
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&a))
		_, err = fmt.Sscanf(resp.Header.Get("X-Warmpath-Overlap"), "%d/", &matched)
		require.NoError(t, err)
		return matched, a.Usage.Details.Cached
	}
	matched, cached := ask()
	assert.Zero(t, matched)
	assert.Zero(t, cached)
	matched, cached = ask()
	assert.Positive(t, cached)
	assert.Equal(t, cached, matched*page)
}

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

// metric reads one number of /metrics, 0 where there is none of that name and labels.
func metric(t *testing.T, base, name string) float64 {
	t.Helper()
	resp, err := http.Get(base + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindSubmatch(text)
	if found == nil {
		return 0
	}
	v, err := strconv.ParseFloat(string(found[1]), 64)
	require.NoError(t, err)
	return v
}
