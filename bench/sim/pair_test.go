package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/testkit"
)

// patience bounds every wait of a test.
const patience = 60 * time.Second

// couple is a prefill and a decode worker of one model, and a regular one with the answers
// to compare with.
type couple struct {
	prefill, decode, oracle *Worker
	room                    int64
}

func startCouple(t *testing.T, change func(*Config)) *couple {
	t.Helper()
	one := func(mode string) *Worker {
		cfg := fast()
		cfg.Mode = mode
		cfg.BootstrapTimeout, cfg.WaitingTimeout = 1e6*time.Second, 1e6*time.Second // nothing may depend on the machine's speed
		if change != nil {
			change(&cfg)
		}
		return startWorker(t, cfg)
	}
	return &couple{prefill: one(ModePrefill), decode: one(ModeDecode), oracle: one(""), room: 1 << 40}
}

// with returns body with the bootstrap fields of both legs.
func (c *couple) with(body string) string {
	c.room += 1000
	return fmt.Sprintf(`%s,"bootstrap_host":"127.0.0.1","bootstrap_port":%d,"bootstrap_room":%d}`,
		strings.TrimSuffix(body, "}"), c.prefill.BootstrapPort(), c.room)
}

// both sends body to both workers at once.
func (c *couple) both(t *testing.T, path, body string) (prefill, decode reply) {
	t.Helper()
	var wg sync.WaitGroup
	var perr, derr error
	wg.Go(func() { prefill, perr = trySend(c.prefill, http.MethodPost, path, body, nil) })
	wg.Go(func() { decode, derr = trySend(c.decode, http.MethodPost, path, body, nil) })
	wg.Wait()
	if perr != nil || derr != nil {
		t.Fatalf("%s: prefill %v, decode %v", path, perr, derr)
	}
	return prefill, decode
}

// idle waits until the workers have no work in progress.
func (c *couple) idle(t *testing.T) {
	t.Helper()
	for _, w := range []*Worker{c.prefill, c.decode} {
		testkit.AwaitThat(t, func() bool { return w.Work() == Work{} }, func() string { return fmt.Sprintf("%+v", w.Work()) })
	}
}

// meta holds the log probabilities that tests read.
type meta struct {
	IDs  []uint32 `json:"output_ids"`
	Text string   `json:"text"`
	Meta struct {
		Input  []json.RawMessage `json:"input_token_logprobs"`
		Output []json.RawMessage `json:"output_token_logprobs"`
		Finish json.RawMessage   `json:"finish_reason"`
		Answer int               `json:"completion_tokens"`
		Cached int               `json:"cached_tokens"`
	} `json:"meta_info"`
}

func raws(r []json.RawMessage) string {
	b, _ := json.Marshal(r)
	return string(b)
}

// TestPairAnswersLikeOneWorker compares tokens, text and log probabilities of pairs with
// those of a regular worker.
func TestPairAnswersLikeOneWorker(t *testing.T) {
	for _, dp := range []int{1, 3} {
		t.Run(fmt.Sprintf("dp=%d", dp), func(t *testing.T) {
			c := startCouple(t, func(cfg *Config) { cfg.DPSize = dp })
			for i, n := range []int{1, 3, 4, 5, 63, 200} {
				for _, answer := range []int{1, 2, 30} {
					body := generateBody(sequence(1000, n), answer, fmt.Sprintf(`,"return_logprob":true,"logprob_start_len":%d`, min(i, n-1)))
					want := decode[meta](t, post(t, c.oracle, "/generate", body))
					p, d := c.both(t, "/generate", c.with(body))
					pm, dm := decode[meta](t, p), decode[meta](t, d)
					if !slices.Equal(dm.IDs, want.IDs) || dm.Text != want.Text {
						t.Errorf("prompt %d answer %d: ids %v, want %v", n, answer, dm.IDs, want.IDs)
					}
					if len(pm.IDs) != 1 || pm.IDs[0] != want.IDs[0] || pm.Meta.Answer != 1 || string(pm.Meta.Finish) != `{"type":"length","length":0}` {
						t.Errorf("the prefill leg says %+v", pm)
					}
					if got := raws(append(pm.Meta.Input, dm.Meta.Input...)); got != raws(want.Meta.Input) || len(dm.Meta.Input) > 0 {
						t.Errorf("input log probabilities\n%s\nwant\n%s", got, raws(want.Meta.Input))
					}
					if raws(dm.Meta.Output) != raws(want.Meta.Output) {
						t.Errorf("output log probabilities\n%s\nwant\n%s", raws(dm.Meta.Output), raws(want.Meta.Output))
					}
				}
			}
			c.idle(t)
		})
	}
}

// TestPairServesEveryEndpoint compares whole answers, JSON and streams, of all endpoints.
func TestPairServesEveryEndpoint(t *testing.T) {
	c := startCouple(t, nil)
	tests := map[string]struct{ path, body string }{
		"text":         {"/generate", `{"text":"tell me","sampling_params":{"max_new_tokens":20,"ignore_eos":true}}`},
		"itself":       {"/generate", `{"text":"tell me more","sampling_params":{"max_new_tokens":500}}`},
		"none":         {"/generate", `{"text":"no answer","sampling_params":{"max_new_tokens":1}}`},
		"chat":         {"/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"max_tokens":20,"logprobs":true,"top_logprobs":2}`},
		"chat twice":   {"/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"max_tokens":20,"n":2}`},
		"completion":   {"/v1/completions", `{"prompt":"tell me","max_tokens":20,"logprobs":2}`},
		"completions":  {"/v1/completions", `{"prompt":["tell me","tell you"],"max_tokens":9}`},
		"stop strings": {"/v1/completions", `{"prompt":"tell me","max_tokens":2000,"stop":["a","zz"]}`},
	}
	for name, x := range tests {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%v", name, stream), func(t *testing.T) {
				body := x.body
				if stream {
					body = strings.TrimSuffix(body, "}") + `,"stream":true}`
				}
				want := post(t, c.oracle, x.path, body)
				_, got := c.both(t, x.path, c.with(body))
				if got.status != want.status || got.kind != want.kind {
					t.Fatalf("status %d %s, want %d %s: %s", got.status, got.kind, want.status, want.kind, got.body)
				}
				if g, w := spoken(t, got.body, stream), spoken(t, want.body, stream); g != w {
					t.Errorf("said\n%s\nwant\n%s", g, w)
				}
			})
		}
	}
	c.idle(t)
}

// spoken joins the text of an answer or a stream, by choice.
func spoken(t *testing.T, body []byte, stream bool) string {
	t.Helper()
	if !stream {
		return said(t, body, nil)
	}
	text := map[int]string{}
	for _, e := range events(body) {
		if e != "[DONE]" {
			said(t, []byte(e), text)
		}
	}
	return fmt.Sprint(text)
}

func said(t *testing.T, b []byte, into map[int]string) string {
	t.Helper()
	var a struct {
		Text    string
		Index   int
		Choices []struct {
			Index    int
			Text     string
			Message  struct{ Content string }
			Delta    struct{ Content string }
			Logprobs *struct {
				Content []struct {
					Token   string
					Logprob float64
				}
				Tokens []string
				Values []*float64 `json:"token_logprobs"`
			}
		}
	}
	if err := json.Unmarshal(b, &a); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	if into == nil {
		into = map[int]string{}
	}
	if a.Choices == nil {
		into[a.Index] = a.Text // each event has the whole text
	}
	for _, c := range a.Choices {
		into[c.Index] += c.Text + c.Message.Content + c.Delta.Content
		if c.Logprobs != nil {
			for _, x := range c.Logprobs.Content {
				into[c.Index+100] += fmt.Sprint(x.Token, x.Logprob)
			}
			for i, x := range c.Logprobs.Tokens {
				into[c.Index+100] += fmt.Sprint(x, *c.Logprobs.Values[i])
			}
		}
	}
	return fmt.Sprint(into)
}

// TestEchoedLogprobsAreThePrefillsOnly checks where a prompt's log probabilities are.
func TestEchoedLogprobsAreThePrefillsOnly(t *testing.T) {
	c := startCouple(t, nil)
	const body = `{"prompt":"tell me everything","max_tokens":3,"echo":true,"logprobs":1}`
	type answer struct {
		Choices []struct {
			Logprobs struct {
				Tokens []string          `json:"tokens"`
				Values []json.RawMessage `json:"token_logprobs"`
				Tops   []json.RawMessage `json:"top_logprobs"`
			} `json:"logprobs"`
		} `json:"choices"`
	}
	want := decode[answer](t, post(t, c.oracle, "/v1/completions", body)).Choices[0].Logprobs
	p, d := c.both(t, "/v1/completions", c.with(body))
	prefill, answered := decode[answer](t, p).Choices[0].Logprobs, decode[answer](t, d).Choices[0].Logprobs
	n := len(want.Tokens) - 3
	if len(prefill.Tokens) != n+1 || len(answered.Tokens) != 3 || len(want.Tops) != n+3 {
		t.Fatalf("prefill has %d tokens, decode %d, a regular worker %d", len(prefill.Tokens), len(answered.Tokens), len(want.Tokens))
	}
	if got := raws(append(prefill.Values[:n:n], answered.Values...)); got != raws(want.Values) {
		t.Errorf("merged %s, want %s", got, raws(want.Values))
	}
	if got := raws(append(prefill.Tops[:n:n], answered.Tops...)); got != raws(want.Tops) {
		t.Errorf("merged %s, want %s", got, raws(want.Tops))
	}
}

// TestBatchesMeetRoomByRoom sends lists of rooms, and one room for a whole batch.
func TestBatchesMeetRoomByRoom(t *testing.T) {
	for name, rooms := range map[string]string{"list": `[70,71,75]`, "one": `9007199254740993`} {
		t.Run(name, func(t *testing.T) {
			c := startCouple(t, func(cfg *Config) { cfg.DPSize = 2 })
			body := `{"text":["a","b","c"],"sampling_params":{"max_new_tokens":5,"ignore_eos":true}}`
			want := decode[[]meta](t, post(t, c.oracle, "/generate", body))
			p, d := c.both(t, "/generate", fmt.Sprintf(`%s,"bootstrap_host":"127.0.0.1","bootstrap_port":%d,"bootstrap_room":%s}`,
				strings.TrimSuffix(body, "}"), c.prefill.BootstrapPort(), rooms))
			got := decode[[]meta](t, d)
			if len(decode[[]meta](t, p)) != 3 || len(got) != 3 {
				t.Fatalf("got %d answers", len(got))
			}
			for i := range want {
				if !slices.Equal(got[i].IDs, want[i].IDs) {
					t.Errorf("answer %d is %v, want %v", i, got[i].IDs, want[i].IDs)
				}
			}
			if seen, reused := c.prefill.Rooms(); len(seen) != 3 || reused != 0 {
				t.Errorf("rooms %v, %d reused", seen, reused)
			}
		})
	}
}

// TestPrefixIsReported: the decode leg reports the hits of the prefill worker's cache, and a
// decode worker with its own cache stores the answer.
func TestPrefixIsReported(t *testing.T) {
	for _, own := range []bool{false, true} {
		c := startCouple(t, func(cfg *Config) { cfg.DecodeCache = own && cfg.Mode == ModeDecode })
		ids := sequence(500, 41)
		for turn := range 2 {
			_, d := c.both(t, "/generate", c.with(generateBody(ids, 6, "")))
			if got, want := decode[meta](t, d).Meta.Cached, turn*40; got != want {
				t.Errorf("turn %d: cached %d, want %d", turn, got, want)
			}
		}
		c.idle(t)
		tree := c.decode.now.Load().ranks[0].report.snapshot().tree
		if own != (tree > 0) {
			t.Errorf("own cache %v: the decode worker's tree has %d pages", own, tree)
		}
	}
}

// TestOverridesTravelInHeaders: headers override the body.
func TestOverridesTravelInHeaders(t *testing.T) {
	c := startCouple(t, func(cfg *Config) { cfg.HeaderOverrides = true })
	header := map[string]string{
		"x-override-bootstrap-host": "127.0.0.1", "x-override-bootstrap-room": "9223372036854775807",
		"x-override-bootstrap-port": strconv.Itoa(c.prefill.BootstrapPort()),
	}
	const body = `{"messages":[{"role":"user","content":"hi"}],"max_tokens":5}`
	var p, d reply
	var wg sync.WaitGroup
	wg.Go(func() { p, _ = trySend(c.prefill, http.MethodPost, "/v1/chat/completions", body, header) })
	wg.Go(func() { d, _ = trySend(c.decode, http.MethodPost, "/v1/chat/completions", body, header) })
	wg.Wait()
	if p.status != http.StatusOK || d.status != http.StatusOK || !bytes.Contains(d.body, []byte(`"completion_tokens":5`)) {
		t.Errorf("prefill %d, decode %d %s", p.status, d.status, d.body)
	}
	header["x-override-bootstrap-room"] = "x"
	if r := send(t, c.decode, http.MethodPost, "/v1/chat/completions", body, header); r.status != http.StatusBadRequest {
		t.Errorf("a room of letters gets %d", r.status)
	}
}
