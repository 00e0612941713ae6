package request_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/request"
)

func TestPairAnswers(t *testing.T) {
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream=%v", stream), func(t *testing.T) {
			p, d := newPair(t, 1, 1, 1)
			h := startPair(t, p, d)
			resp, got := h.Post("/generate", pairRequest(stream))
			assert.Equal(t, http.StatusOK, resp.StatusCode)
			assert.Equal(t, pairReply(stream), got)
			assert.Equal(t, d[0].URL, resp.Header.Get("X-Warmpath-Worker"))
			assert.Equal(t, p[0].URL, resp.Header.Get("X-Warmpath-Prefill"))
			assert.Equal(t, "0/2", resp.Header.Get("X-Warmpath-Overlap"))
			assert.Equal(t, p[0].LastBody(), d[0].LastBody())
			noneRunning(t, h)
		})
	}
}

// Failures of a leg. Those marked with "stream" occur only in streams.
var failing = []struct {
	name   string
	stream bool
	act    act
	hangs  bool // its probes too
	done   bool // it has met its partner before
}{
	{name: "refuses"},
	{name: "dies before it begins", act: dies},
	{name: "dies after the handshake", act: func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
		if l.waits(r, l.arrives(b)) {
			dies(l, rw, r, b)
		}
	}, done: true},
	{name: "dies after its header", stream: true, act: func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
		rw.Header().Set("Content-Type", "text/event-stream")
		rw.WriteHeader(http.StatusOK)
		flush(rw)
		dies(l, rw, r, b)
	}},
	{name: "hangs", act: hangs, hangs: true},
	{name: "hangs after its header", stream: true, hangs: true, act: func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
		rw.WriteHeader(http.StatusOK)
		flush(rw)
		hangs(l, rw, r, b)
	}},
	{name: "answers 503", act: says(http.StatusServiceUnavailable, "application/json", `{"detail":"full"}`)},
	{name: "answers 500", act: says(http.StatusInternalServerError, "application/json", `{"detail":"out of memory"}`)},
	{name: "answers 500 for the transfer", act: says(http.StatusInternalServerError, "application/json",
		`{"detail":"Decode transfer failed for request rank=0 with exception KVTransferError(...)"}`)},
	{name: "sends an error in its stream", stream: true, act: says(http.StatusOK, "text/event-stream",
		`data: {"error":{"object":"error","message":"out of memory","type":"INTERNAL_SERVER_ERROR","code":500}}`+"\n\ndata: [DONE]\n\n")},
	{name: "sends an aborted answer", stream: true, act: says(http.StatusOK, "text/event-stream",
		`data: {"text":"","meta_info":{"finish_reason":{"type":"abort","message":"Prefill transfer failed","status_code":500}}}`+"\n\ndata: [DONE]\n\n")},
	{name: "ends its stream in half an event", stream: true, act: func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(rw, `data: {"te`)
		flush(rw)
		dies(l, rw, r, b)
	}},
}

func dies(*fakeLeg, http.ResponseWriter, *http.Request, *pairBody) { panic(http.ErrAbortHandler) }

func hangs(_ *fakeLeg, _ http.ResponseWriter, r *http.Request, _ *pairBody) { <-r.Context().Done() }

// Each failure of either leg before the answer begins leads to the answer of another pair. The
// other leg is aborted, and no load stays.
func TestPairFailuresGoElsewhere(t *testing.T) {
	t.Parallel()
	for _, leg := range []string{"prefill", "decode"} {
		for _, f := range failing {
			for _, stream := range []bool{false, true} {
				if f.stream && !stream {
					continue
				}
				t.Run(fmt.Sprintf("%s %s/stream=%v", leg, f.name, stream), func(t *testing.T) {
					t.Parallel()
					options := []option{withPolicy("round-robin")}
					if f.hangs {
						options = append(options, withWorkers(soonHung))
					}
					p, d := newPair(t, 2, 2, 1)
					bad := p[0]
					if leg == "decode" {
						bad = d[0]
					}
					h := startPair(t, p, d, options...)
					if f.act != nil {
						bad.does(f.act)
					} else {
						_ = bad.Close()
					}
					if f.hangs { // from its first request on
						bad.does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
							bad.On("/ready", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
							f.act(l, rw, r, b)
						})
					}
					for range 4 { // both pairs are asked first
						resp, got := h.Post("/generate", pairRequest(stream))
						assert.Equal(t, http.StatusOK, resp.StatusCode)
						assert.Equal(t, pairReply(stream), got)
						assert.NotEqual(t, bad.URL, resp.Header.Get("X-Warmpath-Worker"))
						if !f.done { // else the decode worker may have all that it needs
							assert.NotEqual(t, bad.URL, resp.Header.Get("X-Warmpath-Prefill"))
						}
					}
					if f.hangs {
						assert.Contains(t, <-bad.Aborted, "rid", "it may go on")
					}
					noneRunning(t, h)
				})
			}
		}
	}
}

// The leg that has not failed is aborted, its connection is closed, and it counts as no failure,
// also where it has sent the header of a stream.
func TestPairFailureEndsTheOtherLeg(t *testing.T) {
	for _, leg := range []string{"prefill", "decode"} {
		for _, header := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/header=%v", leg, header), func(t *testing.T) {
				p, d := newPair(t, 1, 1, 1)
				bad, other := p[0], d[0]
				if leg == "decode" {
					bad, other = d[0], p[0]
				}
				there := make(chan struct{})
				gone := make(chan struct{})
				other.does(func(_ *fakeLeg, rw http.ResponseWriter, r *http.Request, _ *pairBody) {
					if header {
						rw.Header().Set("Content-Type", "text/event-stream")
						rw.WriteHeader(http.StatusOK)
						flush(rw)
					}
					close(there)
					<-r.Context().Done()
					close(gone)
				})
				bad.does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
					<-there
					dies(l, rw, r, b)
				})
				h := startPair(t, p, d)
				resp, got := h.Post("/generate", fmt.Sprintf(`{"rid":"00000000000000000000000000000001","text":"x","stream":%v}`, header))
				assert.Equal(t, http.StatusBadGateway, resp.StatusCode)
				assert.Contains(t, got, `"code":"upstream_error"`)
				<-gone
				assert.Equal(t, `{"rid":"00000000000000000000000000000001"}`, <-other.Aborted)
				for leg, faults := range map[*fakeLeg]int64{bad: 1, other: 0} {
					assert.EqualValues(t, faults, h.Worker(leg.fakeWorker).Breaker.Faults(), leg.URL)
				}
				noneRunning(t, h)
			})
		}
	}
}

// The innocent leg may be used again: with one prefill worker and two decode workers, one of
// which fails, every request is answered.
func TestPairsInnocentLegIsUsedAgain(t *testing.T) {
	t.Parallel()
	for _, leg := range []string{"prefill", "decode"} {
		for _, f := range []act{dies, says(http.StatusInternalServerError, "application/json", `{"detail":"KVTransferError"}`)} {
			t.Run(leg, func(t *testing.T) {
				p, d := newPair(t, 1, 2, 1)
				bad := d[0]
				if leg == "prefill" {
					p, d = newPair(t, 2, 1, 1)
					bad = p[0]
				}
				bad.does(f)
				h := startPair(t, p, d, withPolicy("round-robin"))
				for range 4 {
					resp, got := h.Post("/generate", pairRequest(true))
					assert.Equal(t, http.StatusOK, resp.StatusCode)
					assert.Equal(t, pairReply(true), got)
				}
				noneRunning(t, h)
			})
		}
	}
}

// A request that both workers would refuse is refused once, with a worker's own answer, and
// counts against neither.
func TestPairClientErrors(t *testing.T) {
	t.Parallel()
	const words = `{"error":{"message":"too long"}}`
	const event = `data: {"error":{"message":"too long","type":"invalid_request_error","code":400,"retryable":false}}` + "\n\ndata: [DONE]\n\n"
	refuse := says(http.StatusBadRequest, "application/json", words)
	refuseInside := says(http.StatusOK, "text/event-stream", event)
	for _, tt := range []struct {
		name            string
		prefill, decode act
		status          int
		body            string
	}{
		{"both", refuse, refuse, http.StatusBadRequest, words},
		{"prefill first", refuse, hangs, http.StatusBadRequest, words},
		{"decode first", hangs, refuse, http.StatusBadRequest, words},
		{"both inside", refuseInside, refuseInside, http.StatusOK, event},
		{"prefill first inside", refuseInside, hangs, http.StatusOK, event},
		{"decode first inside", hangs, refuseInside, http.StatusOK, event},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, d := newPair(t, 1, 1, 1)
			p[0].does(tt.prefill)
			d[0].does(tt.decode)
			h := startPair(t, p, d)
			for range 4 { // a breaker opens after three faults
				resp, got := h.Post("/generate", pairRequest(true))
				assert.Equal(t, tt.status, resp.StatusCode)
				assert.Equal(t, tt.body, got)
			}
			for _, w := range h.Registry.Snapshot().Workers {
				assert.Zero(t, w.Breaker.Faults())
			}
			noneRunning(t, h)
			for _, l := range []*fakeLeg{p[0], d[0]} { // the one that did not refuse may not have been reached
				assert.LessOrEqual(t, len(l.Bodies()), 4, "nothing is tried again")
			}
		})
	}
}

// A client that leaves ends both legs, in any state.
func TestPairClientLeaves(t *testing.T) {
	for _, stream := range []bool{false, true} {
		for _, begun := range []bool{false, true} {
			if begun && !stream {
				continue
			}
			t.Run(fmt.Sprintf("stream=%v/begun=%v", stream, begun), func(t *testing.T) {
				p, d := newPair(t, 1, 1, 1)
				there := make(chan struct{}, 2)
				wait := func(_ *fakeLeg, rw http.ResponseWriter, r *http.Request, _ *pairBody) {
					if begun {
						rw.Header().Set("Content-Type", "text/event-stream")
						_, _ = io.WriteString(rw, "data: {\"text\":\"\",\"meta_info\":{\"id\":\"x\"}}\n\n")
						flush(rw)
					}
					there <- struct{}{}
					<-r.Context().Done()
				}
				p[0].does(wait)
				d[0].does(wait)
				h := startPair(t, p, d)
				ctx, leave := context.WithCancel(t.Context())
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.Base+"/generate",
					strings.NewReader(fmt.Sprintf(`{"rid":"00000000000000000000000000000002","text":"x","stream":%v}`, stream)))
				require.NoError(t, err)
				first := make(chan struct{})
				go func() {
					resp, err := h.Client.Do(req)
					if err != nil {
						return
					}
					_, _ = resp.Body.Read(make([]byte, 1))
					close(first)
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}()
				<-there
				<-there
				if begun {
					<-first
				}
				leave()
				<-p[0].ended
				<-d[0].ended
				assert.Equal(t, `{"rid":"00000000000000000000000000000002"}`, <-p[0].Aborted)
				assert.Equal(t, `{"rid":"00000000000000000000000000000002"}`, <-d[0].Aborted)
				noneRunning(t, h)
			})
		}
	}
}

// A prefill worker that dies once the decode worker has begun does not affect the client.
func TestPairPrefillDiesWhenItIsDone(t *testing.T) {
	p, d := newPair(t, 1, 1, 1)
	dead, seen := make(chan struct{}), make(chan struct{})
	p[0].does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
		l.arrives(b)
		<-seen
		defer close(dead)
		dies(l, rw, r, b)
	})
	d[0].does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
		if !l.waits(r, l.arrives(b)) {
			return
		}
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(rw, "data: {\"text\":\"one\",\"meta_info\":{\"id\":\"x\"}}\n\n")
		flush(rw)
		<-dead
		_, _ = io.WriteString(rw, "data: [DONE]\n\n")
	})
	h := startPair(t, p, d)
	resp, err := h.Client.Post(h.Base+"/generate", "application/json", strings.NewReader(pairRequest(true)))
	require.NoError(t, err)
	defer resp.Body.Close()
	r := bufio.NewReader(resp.Body)
	_, err = r.ReadString('\n') // the first event is forwarded at once
	require.NoError(t, err)
	close(seen)
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	assert.Equal(t, "\ndata: [DONE]\n\n", string(rest))
	noneRunning(t, h)
}

// A decode worker that does not begin after the prefill is given up, and so is a silent prefill
// worker.
func TestPairDeadlines(t *testing.T) {
	t.Parallel()
	t.Run("decode lags", func(t *testing.T) {
		t.Parallel()
		p, d := newPair(t, 1, 2, 1)
		d[0].does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
			l.arrives(b)
			rw.WriteHeader(http.StatusOK)
			flush(rw)
			<-r.Context().Done()
		})
		h := startPair(t, p, d, withPolicy("round-robin"), withConfig(func(c *request.Config) { c.Pair.Timeout = 5 * time.Second }))
		for range 2 {
			resp, got := h.Post("/generate", pairRequest(true))
			assert.Equal(t, http.StatusOK, resp.StatusCode)
			assert.Equal(t, pairReply(true), got)
		}
		assert.Contains(t, <-d[0].Aborted, "rid")
		noneRunning(t, h)
	})
	t.Run("prefill is silent", func(t *testing.T) {
		t.Parallel()
		p, d := newPair(t, 1, 1, 1)
		p[0].does(hangs)
		d[0].does(hangs)
		h := startPair(t, p, d, withConfig(func(c *request.Config) { c.Pair.PrefillTimeout = 50 * time.Millisecond }))
		resp, got := h.Post("/generate", pairRequest(true))
		assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode, got)
		assert.Contains(t, <-p[0].Aborted, "rid")
		assert.Contains(t, <-d[0].Aborted, "rid")
		noneRunning(t, h)
	})
}
