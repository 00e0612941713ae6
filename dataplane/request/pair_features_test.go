package request_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/request"
)

// replies is a leg that meets its partner and answers with a constant, as JSON or as the one
// event of a stream.
func replies(reply string) act {
	return func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
		switch {
		case !l.waits(r, l.arrives(b)):
		case b.Stream:
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(rw, "data: "+reply+"\n\ndata: [DONE]\n\n")
		default:
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, reply)
		}
	}
}

func TestPairLogprobs(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, path, body      string
		prefill, decode, want string
	}{
		{
			"generate", "/generate", `{"input_ids":[1,2],"return_logprob":true,"logprob_start_len":0`,
			`{"text":"a","meta_info":{"id":"x","input_token_logprobs":[[null,1,null],[-1.5,2,null]]}}`,
			`{"text":"ab","meta_info":{"id":"x","input_token_logprobs":[],"completion_tokens":2}}`,
			`{"text":"ab","meta_info":{"id":"x","input_token_logprobs":[[null,1,null],[-1.5,2,null]],"completion_tokens":2}}`,
		},
		{
			"echo", "/v1/completions", `{"model":"tiny","prompt":"a","echo":true,"logprobs":1`,
			`{"choices":[{"index":0,"text":"ab","logprobs":{"tokens":["a","b"],"token_logprobs":[null,-2]}}]}`,
			`{"choices":[{"index":0,"text":"ab","logprobs":{"tokens":["b"],"token_logprobs":[-2]}}]}`,
			`{"choices":[{"index":0,"text":"ab","logprobs":{"tokens":["a","b"],"token_logprobs":[null,-2]}}]}`,
		},
		{
			"none where some were asked for", "/generate", `{"input_ids":[1,2],"return_logprob":true`,
			`{"text":"a","meta_info":{"id":"x"}}`, `{"text":"ab","meta_info":{"id":"x","input_token_logprobs":[]}}`, `{"text":"ab","meta_info":{"id":"x","input_token_logprobs":[]}}`,
		},
	}
	for _, tt := range tests {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%v", tt.name, stream), func(t *testing.T) {
				p, d := newPair(t, 1, 1, 1)
				p[0].does(replies(tt.prefill))
				d[0].does(replies(tt.decode))
				h := startPair(t, p, d)
				want := tt.want
				if stream {
					want = "data: " + want + "\n\ndata: [DONE]\n\n"
				}
				resp, got := h.Post(tt.path, tt.body+fmt.Sprintf(`,"stream":%v}`, stream))
				assert.Equal(t, http.StatusOK, resp.StatusCode)
				assert.Equal(t, want, got)
				noneRunning(t, h)
			})
		}
	}
}

// A prefill worker that dies with the log probabilities is a failure of the pair.
func TestPairLogprobsAreLost(t *testing.T) {
	p, d := newPair(t, 2, 1, 1)
	const lists = `{"text":"a","meta_info":{"id":"x","input_token_logprobs":[[null,1,null]]}}`
	p[0].does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
		if l.waits(r, l.arrives(b)) {
			_, _ = io.WriteString(rw, lists[:40])
			flush(rw)
			dies(l, rw, r, b)
		}
	})
	p[1].does(replies(lists))
	d[0].does(replies(`{"text":"b","meta_info":{"id":"x","input_token_logprobs":[]}}`))
	h := startPair(t, p, d, withPolicy("round-robin"))
	for range 2 {
		resp, got := h.Post("/generate", `{"input_ids":[1],"return_logprob":true}`)
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		assert.Equal(t, `{"text":"b","meta_info":{"id":"x","input_token_logprobs":[[null,1,null]]}}`, got)
	}
	noneRunning(t, h)
}

func TestPairBatches(t *testing.T) {
	p, d := newPair(t, 1, 1, 2)
	h := startPair(t, p, d)
	for path, body := range map[string]string{
		"/generate":       `{"input_ids":[[1,2],[3]],"sampling_params":{}}`,
		"/v1/completions": `{"model":"tiny","prompt":["a","b"]}`,
	} {
		resp, _ := h.Post(path, body)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		var b struct {
			Host []string `json:"bootstrap_host"`
			Port []int    `json:"bootstrap_port"`
			Room []uint64 `json:"bootstrap_room"`
			Rank *uint64  `json:"disagg_prefill_dp_rank"`
		}
		require.NoError(t, json.Unmarshal([]byte(p[0].LastBody()), &b), p[0].LastBody())
		assert.Equal(t, []string{"127.0.0.1", "127.0.0.1"}, b.Host)
		assert.Len(t, b.Port, 2)
		require.Len(t, b.Room, 2)
		assert.NotEqual(t, b.Room[0], b.Room[1])
		for _, room := range b.Room {
			assert.Equal(t, *b.Rank, room%2)
		}
	}
	noneRunning(t, h)
}

// Each leg gets its own rank and the prefill rank, in the body or in the header that its API
// reads, and a room of that rank.
func TestPairRanks(t *testing.T) {
	p, d := newPair(t, 1, 1, 2)
	headers := make(chan string, 8)
	for _, l := range []*fakeLeg{p[0], d[0]} {
		l.does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
			headers <- fmt.Sprintf("%v %s", l.prefill, r.Header.Get("X-Data-Parallel-Rank"))
			meets(l, rw, r, b)
		})
	}
	h := startPair(t, p, d, withPolicy("round-robin"))
	read := func(l *fakeLeg) (b pairBody) {
		dec := json.NewDecoder(strings.NewReader(l.LastBody()))
		dec.UseNumber()
		require.NoError(t, dec.Decode(&b))
		return b
	}
	for range 3 {
		resp, _ := h.Post("/generate", pairRequest(false))
		pb, db := read(p[0]), read(d[0])
		assert.Equal(t, pb.Room, db.Room)
		assert.Equal(t, resp.Header.Get("X-Warmpath-Prefill"), fmt.Sprintf("%s#%d", p[0].URL, *pb.Rank))
		assert.Equal(t, resp.Header.Get("X-Warmpath-Worker"), fmt.Sprintf("%s#%d", d[0].URL, *db.Rank))
		assert.Equal(t, *pb.Rank, *pb.PrefillRank)
		assert.Equal(t, *pb.Rank, *db.PrefillRank)
		room, err := pb.Room.(json.Number).Int64()
		require.NoError(t, err)
		assert.EqualValues(t, *pb.Rank, room%2)
		<-headers
		<-headers
	}
	resp, _ := h.Post("/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"x"}]}`)
	pb, db := read(p[0]), read(d[0])
	assert.Nil(t, pb.Rank)
	assert.Equal(t, *pb.PrefillRank, *db.PrefillRank)
	rank := func(url string) string { return url[strings.LastIndex(url, "#")+1:] }
	assert.ElementsMatch(t, []string{
		"true " + rank(resp.Header.Get("X-Warmpath-Prefill")), "false " + rank(resp.Header.Get("X-Warmpath-Worker")),
	}, []string{<-headers, <-headers})
	noneRunning(t, h)
}

// With headers, the workers get the same values, and the body passes unchanged.
func TestPairHeaders(t *testing.T) {
	p, d := newPair(t, 1, 1, 2)
	headers := make(chan http.Header, 2)
	for _, l := range []*fakeLeg{p[0], d[0]} {
		l.does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
			b.Room = r.Header.Get("X-Override-Bootstrap-Room")
			headers <- r.Header
			meets(l, rw, r, b)
		})
	}
	h := startPair(t, p, d, withConfig(func(c *request.Config) { c.Pair.Headers = true }))
	const body = `{"model":"tiny","messages":[{"role":"user","content":"x"}]}`
	resp, _ := h.Do(http.MethodPost, h.Base+"/v1/chat/completions", body,
		"X-Override-Bootstrap-Room", "5", "X-Data-Parallel-Rank", "1", "X-Mine", "kept")
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, body, p[0].LastBody())
	assert.Equal(t, body, d[0].LastBody())
	for range 2 {
		got := <-headers
		assert.Regexp(t, `^wp-[0-9a-f]{24}$`, got.Get("X-Override-Rid"))
		assert.Equal(t, "127.0.0.1", got.Get("X-Override-Bootstrap-Host"))
		assert.NotEqual(t, "5", got.Get("X-Override-Bootstrap-Room"))
		assert.Len(t, got.Values("X-Override-Bootstrap-Room"), 1)
		assert.Equal(t, []string{"1"}, got.Values("X-Data-Parallel-Rank"))
		assert.NotEmpty(t, got.Get("X-Override-Disagg-Prefill-Dp-Rank"))
		assert.Equal(t, "kept", got.Get("X-Mine"))
	}
	h.Post("/generate", pairRequest(false)) // other APIs keep to the body
	assert.Contains(t, p[0].LastBody(), "bootstrap_room")
	noneRunning(t, h)
}

// A client's own bootstrap fields are overwritten.
func TestPairOverwritesClientsRooms(t *testing.T) {
	p, d := newPair(t, 1, 1, 1)
	h := startPair(t, p, d)
	resp, got := h.Post("/generate", `{"bootstrap_room":7,"bootstrap_host":null,"input_ids":[1]}`)
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, decodeReply, got)
	var b pairBody // of equal names, the last counts
	require.NoError(t, json.Unmarshal([]byte(d[0].LastBody()), &b))
	assert.Equal(t, 2, strings.Count(d[0].LastBody(), "bootstrap_room"))
	assert.NotEqual(t, float64(7), b.Room)
	assert.Equal(t, "127.0.0.1", b.Host)
	noneRunning(t, h)
}

// Several answers to one prompt need a regular worker; without one the request is refused.
func TestPairSeveralAnswers(t *testing.T) {
	const body = `{"input_ids":[1],"sampling_params":{"n":2}}`
	p, d := newPair(t, 1, 1, 1)
	h := startPair(t, p, d)
	resp, got := h.Post("/generate", body)
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
	assert.Contains(t, got, `"param":"n"`)
	noneRunning(t, h)
	h.answersWhole("/generate", body, idsReply)
	noneRunning(t, h)
}

// However a body spells that it asks for several answers, pairs do not get it.
func TestPairSeveralAnswersInAnySpelling(t *testing.T) {
	p, d := newPair(t, 1, 1, 1)
	h := startPair(t, p, d)
	const plain = `{"model":"tiny","prompt":"x","messages":[{"role":"user","content":"x"}],"n":%s}`
	for _, n := range []string{`2`, `2.0`, `2e0`, `"2"`, `"2.0"`, `" +2 "`, `"\u0032"`, `"1_0"`} {
		for path, body := range map[string]string{
			"/v1/completions": plain, "/v1/chat/completions": plain,
			"/generate": `{"text":"x","sampling_params":{"n":%s}}`,
		} {
			resp, got := h.Post(path, fmt.Sprintf(body, n))
			assert.Equal(t, http.StatusBadRequest, resp.StatusCode, "%s %s", path, n)
			assert.Contains(t, got, `"param":"n"`)
		}
	}
	resp, got := h.Post("/generate", `{"text":["x","y"],"sampling_params":[{"n":2.0},{"n":2}]}`)
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode, got)
	for _, n := range []string{`1`, `1.0`, `"1"`, `true`, `null`} {
		resp, got := h.Post("/v1/completions", fmt.Sprintf(plain, n))
		assert.Equal(t, http.StatusOK, resp.StatusCode, "%s: %s", n, got)
	}
	assert.Len(t, p[0].Bodies(), 5)
	noneRunning(t, h)
}

// TestPairsOfConvertedAPIs: both legs get the client's body with the same room, and the same id of a response.
func TestPairsOfConvertedAPIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ path, body, reply, sent string }{
		"message":           {"/v1/messages", messagesBody + "}", messageReply, messagesBody + `,"bootstrap_host":`},
		"response":          {"/v1/responses", responsesBody + "}", responseReply, `"request_id":"resp_`},
		"streamed response": {"/v1/responses", responsesBody + `,"stream":true}`, responseBegin + responseDelta + responseEnd, `"request_id":"resp_`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, d := newPair(t, 1, 1, 1)
			for _, l := range []*fakeLeg{p[0], d[0]} {
				l.On(c.path, func(rw http.ResponseWriter, r *http.Request) {
					raw, _ := io.ReadAll(r.Body)
					var b pairBody
					assert.NoError(t, json.Unmarshal(raw, &b))
					if l.waits(r, l.arrives(&b)) {
						rw.Header().Set("Content-Type", map[bool]string{true: "text/event-stream", false: "application/json"}[b.Stream])
						_, _ = io.WriteString(rw, c.reply)
					}
				})
			}
			h := startPair(t, p, d)
			resp, got := h.Post(c.path, c.body)
			assert.Equal(t, http.StatusOK, resp.StatusCode)
			assert.Equal(t, c.reply, got)
			assert.NotEmpty(t, resp.Header.Get("X-Warmpath-Prefill"))
			assert.Contains(t, d[0].LastBody(), c.sent)
			assert.Contains(t, d[0].LastBody(), `"bootstrap_room":`)
			assert.Equal(t, p[0].LastBody(), d[0].LastBody())
			noneRunning(t, h)
		})
	}
}

// Requests that compute nothing go to one worker of a pair, /v1/responses goes to both, and all
// others need a regular worker.
func TestPairOtherRoutes(t *testing.T) {
	p, d := newPair(t, 1, 1, 1)
	p[0].Answers("/v1/tokenize", `{"tokens":[1]}`)
	h := startPair(t, p, d)
	resp, got := h.Post("/v1/tokenize", `{"model":"tiny","prompt":"x"}`)
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, `{"tokens":[1]}`, got)
	assert.Empty(t, resp.Header.Get("X-Warmpath-Prefill"))

	resp, got = h.Post("/v1/responses", `{"model":"tiny","input":"x"}`)
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, decodeReply, got)
	assert.Contains(t, d[0].LastBody(), `"bootstrap_room":`)

	// Inference without a room would get 400 from either worker, and may kill a prefill engine.
	for _, path := range []string{"/v1/embeddings", "/v1/score", "/classify"} {
		resp, got = h.Post(path, `{"model":"tiny","input":"x"}`)
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		assert.Contains(t, got, "a regular worker", path)
	}
	h.answersWhole("/v1/embeddings", `{"model":"tiny","input":"x"}`, `{"data":[]}`)
	noneRunning(t, h)
}

// TestTrialsThatNobodyUses: a request that one worker of the chosen pair answers, or none, leaves the trial of the other one's breaker to the
// next request.
func TestTrialsThatNobodyUses(t *testing.T) {
	t.Parallel()
	for _, leg := range []int{0, 1} {
		for path, status := range map[string]int{"/v1/tokenize": http.StatusOK, "/v1/embeddings": http.StatusBadRequest} {
			t.Run(fmt.Sprintf("%s/%d", path, leg), func(t *testing.T) {
				t.Parallel()
				p, d := newPair(t, 3, 3, 1) // an odd number, for a refused pair takes two turns
				for _, l := range append(p, d...) {
					l.Answers("/v1/tokenize", `{"tokens":[1]}`)
				}
				h := startPair(t, p, d, withPolicy("round-robin"))
				w := h.Worker([]*fakeLeg{p[0], d[0]}[leg].fakeWorker)
				for range 3 {
					w.Fault(time.Now())
				}
				require.Eventually(t, func() bool { return w.Breaker.State(time.Now()) == worker.BreakerHalfOpen }, patience, tick)
				for range 9 {
					resp, got := h.Post(path, `{"model":"tiny","prompt":"x","input":"x"}`)
					require.Equal(t, status, resp.StatusCode, got)
				}
				assert.True(t, w.Breaker.Lets(time.Now().UnixNano()))
			})
		}
	}
}

// TestPairHalfMissing: the error names the missing half of the pairs.
func TestPairHalfMissing(t *testing.T) {
	t.Parallel()
	p, d := newPair(t, 1, 1, 1)
	h := startPair(t, p, nil)
	resp, got := h.Post("/generate", pairRequest(false))
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Contains(t, got, "No decode worker")
	h = startPair(t, nil, d)
	resp, got = h.Post("/generate", pairRequest(false))
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Contains(t, got, "No prefill worker")
}

// A worker refuses a body that is larger than the sockets' buffers while it is being sent: its
// memory is not given back before both writers have ended.
func TestPairLargeBodies(t *testing.T) {
	t.Parallel()
	p, d := newPair(t, 2, 2, 1)
	drop := func(_ *fakeLeg, rw http.ResponseWriter, _ *http.Request, _ *pairBody) { dies(nil, rw, nil, nil) }
	p[0].does(drop)
	h := startPair(t, p, d, withPolicy("round-robin"), withConfig(func(c *request.Config) { c.MaxBodyBytes = 16 << 20 }))
	body := `{"text":"` + strings.Repeat("x", 2<<20) + `"}`
	for range 2 { // one for each prefill worker
		resp, got := h.Post("/generate", body)
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		assert.Equal(t, decodeReply, got)
	}
	noneRunning(t, h)
}

// A client that reads slowly holds neither the prefill worker nor memory of the router, and
// gets its whole answer.
func TestPairSlowClient(t *testing.T) {
	p, d := newPair(t, 1, 1, 1)
	event := "data: {\"text\":\"" + strings.Repeat("x", 64<<10) + "\"}\n\n"
	const events = 200 // more than sockets hold
	d[0].does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
		if !l.waits(r, l.arrives(b)) {
			return
		}
		rw.Header().Set("Content-Type", "text/event-stream")
		for range events {
			_, _ = io.WriteString(rw, event)
			flush(rw)
		}
		_, _ = io.WriteString(rw, doneEvent)
	})
	h := startPair(t, p, d)
	resp, err := h.Client.Post(h.Base+"/generate", "application/json", strings.NewReader(pairRequest(true)))
	require.NoError(t, err)
	defer resp.Body.Close()
	<-p[0].ended // while nobody reads
	require.Eventually(t, func() bool {
		for _, r := range h.Registry.Snapshot().Ranks {
			if r.Worker.Role() == worker.RolePrefill && r.Load.InFlight() != 0 {
				return false
			}
		}
		return true
	}, patience, tick)
	n, err := io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	assert.EqualValues(t, events*len(event)+len(doneEvent), n)
	noneRunning(t, h)
}

// The same over TLS, to clients and workers.
func TestPairOverTLS(t *testing.T) {
	t.Run("tls", func(t *testing.T) {
		p, d := newPair(t, 2, 2, 1)
		p[0].does(dies)
		d[1].does(dies)
		h := startPair(t, p, d)
		for range 4 {
			resp, got := h.Post("/generate", pairRequest(true))
			assert.Equal(t, http.StatusOK, resp.StatusCode)
			assert.Equal(t, pairReply(true), got)
		}
		noneRunning(t, h)
	})
}
