package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/leaktest"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// pairPatience is how long a test waits for what must come, however slow the machine.
const pairPatience = 2 * time.Minute

// pairWorker is a simulated worker whose own time-outs are 5 s of the clock: far more than anything takes on it, and short
// enough that legs that nobody meets end within the test.
func pairWorker() sim.Config {
	return sim.Config{
		Model: "m", TimeScale: 100, PairConfig: sim.PairConfig{BootstrapTimeout: 500 * time.Second, WaitingTimeout: 500 * time.Second},
		Log: slog.New(slog.DiscardHandler),
	}
}

// pairCluster is a cluster of pairs with what tests need to know of it.
type pairCluster struct {
	*simulation
	base            string
	client          *http.Client
	prefill, decode []*sim.Worker
	ranks           int // of all workers
}

// startPairs runs a cluster until the test ends, and then checks that no goroutine is left.
func startPairs(t *testing.T, size clusterSize, worker sim.Config, router router.Config) *pairCluster {
	t.Helper()
	leaveNothing(t)
	return runPairs(t, size, worker, router)
}

// leaveNothing checks when the test and its subtests have ended that they left no goroutine.
func leaveNothing(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		rest := append(leaktest.FastHTTP(), before)
		testkit.AwaitThat(t, func() bool { return goleak.Find(rest...) == nil }, func() string { return fmt.Sprint(goleak.Find(rest...)) })
	})
}

// runPairs runs a cluster until the test ends.
func runPairs(t *testing.T, size clusterSize, worker sim.Config, router router.Config) *pairCluster {
	t.Helper()
	router.Listen, router.Policy.Name, router.Log = "127.0.0.1:0", "kv", slog.New(slog.DiscardHandler)
	unhurried(&router)
	cl, err := newCluster(size, worker, router)
	require.NoError(t, err)
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	c := &pairCluster{
		simulation: cl, base: "http://" + cl.router.Addr(), client: &http.Client{Transport: transport},
		prefill: cl.sims[size.workers : size.workers+size.prefill], decode: cl.sims[size.workers+size.prefill:],
		ranks: max(worker.DPSize, 1) * len(cl.sims),
	}
	runTo(t, cl.run)
	t.Cleanup(transport.CloseIdleConnections) // before the router ends
	c.ready(t)
	return c
}

// ready waits until the router uses every rank of every worker.
func (c *pairCluster) ready(t *testing.T) {
	t.Helper()
	testkit.AwaitThat(t, func() bool {
		n := 0
		for _, w := range c.router.Status().Workers {
			if w.State == "ready" {
				n++
			}
		}
		return n >= c.ranks
	}, func() string { return fmt.Sprintf("%+v", c.router.Status().Workers) })
}

// settled ends all faults and waits until nobody has anything left: no load on any rank of the router, no leg and no page at
// any worker. Then it checks that no room was used twice.
func (c *pairCluster) settled(t *testing.T) {
	t.Helper()
	for _, w := range c.sims {
		require.NoError(t, w.Faults().Apply(sim.Fault{Kind: "none"}))
	}
	testkit.AwaitThat(t, func() bool { return c.leftovers() == "" }, c.leftovers)
	for _, side := range [][]*sim.Worker{c.prefill, c.decode} {
		rooms := map[int64]bool{}
		for _, w := range side {
			seen, reused := w.Rooms()
			require.Zero(t, reused, "rooms that one worker was given twice")
			for _, room := range seen {
				require.False(t, rooms[room], "room %d was given to two workers of one role", room)
				rooms[room] = true
			}
		}
	}
}

// leftovers names what is not over yet.
func (c *pairCluster) leftovers() string {
	var b strings.Builder
	st := c.router.Status()
	if st.InFlight != 0 {
		fmt.Fprintf(&b, "router has %d in flight\n", st.InFlight)
	}
	for i := range st.Workers {
		if w := &st.Workers[i]; w.InFlight != 0 || w.PendingTokens != 0 {
			fmt.Fprintf(&b, "router believes %d in flight and %d tokens pending at %s\n", w.InFlight, w.PendingTokens, w.ID)
		}
	}
	for _, w := range c.sims {
		if work := w.Work(); work != (sim.Work{}) {
			fmt.Fprintf(&b, "%s has %+v\n", w.URL(), work)
		}
	}
	return b.String()
}

// question is one request with what its answer has to say.
type question struct {
	path, body, want string
	streamed         string // the body that asks for a stream
	batch            bool   // several prompts
}

// asks makes n different requests from a seed and has a regular worker answer them.
func asks(t *testing.T, n int, seed uint64) []question {
	t.Helper()
	cfg := pairWorker()
	cfg.TimeScale = 1e5
	oracle := startSimulated(t, cfg)
	all := make([]question, n)
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range all {
		a := &all[i]
		a.path, a.body = makeAsk(rng, i)
		a.batch = strings.Contains(a.body, `:["`)
		a.streamed = strings.TrimSuffix(a.body, "}") + `,"stream":true}`
		resp, err := http.Post(oracle.URL()+a.path, "application/json", strings.NewReader(a.body))
		require.NoError(t, err)
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode, "%s %s", a.body, b)
		a.want, err = spoken(b, false)
		require.NoError(t, err)
	}
	return all
}

// startSimulated runs one worker until the test ends.
func startSimulated(t *testing.T, cfg sim.Config) *sim.Worker {
	t.Helper()
	w, err := sim.New(cfg)
	require.NoError(t, err)
	runTo(t, w.Run)
	return w
}

// makeAsk draws a request: prompts share beginnings, like a system prompt, and end differently.
func makeAsk(rng *rand.Rand, i int) (path, body string) {
	text := strings.Repeat("shared words ", rng.IntN(3)*40) + fmt.Sprintf("request %d %d", i, rng.IntN(1000))
	answer := 1 + rng.IntN(24)
	common := fmt.Sprintf(`"max_tokens":%d,"ignore_eos":true`, answer)
	native := fmt.Sprintf(`"sampling_params":{"max_new_tokens":%d,"ignore_eos":true}`, answer)
	switch rng.IntN(9) {
	case 0, 1:
		return "/v1/chat/completions", fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%s"}],%s}`, text, common)
	case 2:
		return "/v1/chat/completions", fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%s"}],%s,"logprobs":true,"top_logprobs":2}`, text, common)
	case 3:
		return "/v1/completions", fmt.Sprintf(`{"model":"m","prompt":"%s",%s}`, text, common)
	case 4:
		return "/v1/completions", fmt.Sprintf(`{"model":"m","prompt":"%s",%s,"echo":true,"logprobs":1}`, text, common)
	case 5:
		return "/v1/completions", fmt.Sprintf(`{"model":"m","prompt":["%s","%s too"],%s}`, text, text, common)
	case 6:
		return "/generate", fmt.Sprintf(`{"text":"%s",%s,"return_logprob":true,"logprob_start_len":%d}`, text, native, rng.IntN(4))
	case 7:
		return "/generate", fmt.Sprintf(`{"text":["%s","%s too","and %s"],%s,"return_logprob":true,"logprob_start_len":0}`, text, text, text, native)
	}
	return "/generate", fmt.Sprintf(`{"text":"%s",%s}`, text, native)
}

// answer is what the tests read of any endpoint's answer or event.
type answer struct {
	Error   json.RawMessage `json:"error"`
	Object  string          `json:"object"`
	Message string          `json:"message"` // of an error that is an answer
	Index   int             `json:"index"`
	Text    string          `json:"text"`
	IDs     []int           `json:"output_ids"`
	Meta    *struct {
		Input  json.RawMessage `json:"input_token_logprobs"`
		Output json.RawMessage `json:"output_token_logprobs"`
		Finish *struct {
			Type   string `json:"type"`
			Status int    `json:"status_code"`
		} `json:"finish_reason"`
	} `json:"meta_info"`
	Choices []choice `json:"choices"`
}

type choice struct {
	Index    int                      `json:"index"`
	Text     string                   `json:"text"`
	Message  struct{ Content string } `json:"message"`
	Delta    struct{ Content string } `json:"delta"`
	Finish   string                   `json:"finish_reason"`
	Logprobs *struct {
		Content []struct {
			Token   string
			Logprob float64
		} `json:"content"`
		Tokens []string   `json:"tokens"`
		Values []*float64 `json:"token_logprobs"`
	} `json:"logprobs"`
}

// heard collects what an answer says, by choice.
type heard struct {
	text, logs, finish map[int]string
}

// spoken is what a whole body says, alike for an answer and a stream; an error if it is no answer.
func spoken(body []byte, stream bool) (string, error) {
	s := heard{text: map[int]string{}, logs: map[int]string{}, finish: map[int]string{}}
	if !stream {
		if err := s.read(body); err != nil {
			return "", err
		}
		return s.String(), nil
	}
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 1<<22)
	last := ""
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if last = data; data != "[DONE]" {
			if err := s.read([]byte(data)); err != nil {
				return "", err
			}
		}
	}
	if last != "[DONE]" {
		return "", fmt.Errorf("%w: the stream ends with %q", io.ErrUnexpectedEOF, last)
	}
	return s.String(), nil
}

func (s *heard) String() string { return fmt.Sprint(s.text, s.logs, s.finish) }

// read takes one answer or event in.
func (s *heard) read(b []byte) error {
	var all []answer
	if b[0] == '[' {
		if err := json.Unmarshal(b, &all); err != nil {
			return fmt.Errorf("%w in %s", err, b)
		}
	} else {
		var one answer
		if err := json.Unmarshal(b, &one); err != nil {
			return fmt.Errorf("%w in %s", err, b)
		}
		all = []answer{one}
	}
	for i := range all {
		a := &all[i]
		at := a.Index
		if b[0] == '[' {
			at = i
		}
		if err := s.add(a, at); err != nil {
			return err
		}
	}
	return nil
}

// toldError is an error that the client was told of.
type toldError string

func (e toldError) Error() string { return "the client was told: " + string(e) }

func (s *heard) add(a *answer, at int) error {
	if len(a.Error) > 0 || a.Object == "error" {
		return toldError(string(a.Error) + a.Message)
	}
	if m := a.Meta; m != nil { // /generate: each event has everything so far
		s.text[at], s.logs[at] = fmt.Sprint(a.Text, a.IDs), string(m.Input)+string(m.Output)
		if m.Finish != nil {
			s.finish[at] = m.Finish.Type
			if m.Finish.Status != 0 {
				return toldError(m.Finish.Type)
			}
		}
	}
	for _, c := range a.Choices {
		s.text[c.Index] += c.Text + c.Message.Content + c.Delta.Content
		s.finish[c.Index] += c.Finish
		if c.Logprobs == nil {
			continue
		}
		for _, x := range c.Logprobs.Content {
			s.logs[c.Index] += fmt.Sprint(x.Token, x.Logprob, " ")
		}
		for i, token := range c.Logprobs.Tokens {
			if s.logs[c.Index] += token + "="; c.Logprobs.Values[i] != nil {
				s.logs[c.Index] += fmt.Sprint(*c.Logprobs.Values[i])
			}
			s.logs[c.Index] += " "
		}
	}
	return nil
}

// send makes one request. Its answer is checked against what a regular worker says; an error that the client was told
// of, or met, is returned.
func (c *pairCluster) send(ctx context.Context, a *question, stream bool) (status int, err error) {
	body := a.body
	if stream {
		body = a.streamed
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+a.path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, err
	}
	if resp.StatusCode != http.StatusOK {
		return resp.StatusCode, toldError(b)
	}
	got, err := spoken(b, stream)
	if err != nil {
		return resp.StatusCode, err
	}
	if got != a.want {
		return resp.StatusCode, fmt.Errorf("%w\nrequest %s\nsays %s\nwant %s", errWrong, body, got, a.want)
	}
	return resp.StatusCode, nil
}

// errWrong is the one error that no fault excuses: somebody else's answer, or a changed one.
var errWrong = errors.New("wrong answer")
