package request_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/request"
)

// illWorkers are the ways in which one of four workers is ill while it answers its probes.
var illWorkers = map[string]struct {
	late  bool // behind some text: nothing can be sent again
	well  bool // slow, and no more
	hangs bool // until its connection is closed
	serve func(d *dialect, rw http.ResponseWriter, request []byte, stream bool)
}{
	"closes": {serve: func(*dialect, http.ResponseWriter, []byte, bool) { panic(http.ErrAbortHandler) }},
	"closes after up to 200 ms": {serve: func(*dialect, http.ResponseWriter, []byte, bool) {
		time.Sleep(rand.N(200 * time.Millisecond)) //nolint:gosec // no secret
		panic(http.ErrAbortHandler)
	}},
	"resets": {serve: func(_ *dialect, rw http.ResponseWriter, _ []byte, _ bool) {
		conn, _, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			return
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}},
	"500": {serve: func(_ *dialect, rw http.ResponseWriter, _ []byte, _ bool) {
		rw.WriteHeader(http.StatusInternalServerError)
	}},
	"an empty object": {serve: func(_ *dialect, rw http.ResponseWriter, _ []byte, stream bool) {
		saysOnly(rw, "{}", stream)
	}},
	"its request": {serve: func(_ *dialect, rw http.ResponseWriter, request []byte, stream bool) {
		saysOnly(rw, string(request), stream)
	}},
	"text": {serve: func(_ *dialect, rw http.ResponseWriter, _ []byte, stream bool) {
		saysOnly(rw, "ready", stream)
	}},
	"the other kind": {serve: func(d *dialect, rw http.ResponseWriter, _ []byte, stream bool) {
		d.answers(rw, !stream)
	}},
	"half an answer": {serve: func(d *dialect, rw http.ResponseWriter, _ []byte, stream bool) {
		if stream {
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(rw, d.begin[:20])
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, d.reply[:len(d.reply)-1])
	}},
	"no choice": {serve: func(_ *dialect, rw http.ResponseWriter, _ []byte, stream bool) {
		saysOnly(rw, noData, stream)
	}},
	"compressed": {serve: func(d *dialect, rw http.ResponseWriter, _ []byte, stream bool) {
		rw.Header().Set("Content-Encoding", "gzip")
		d.answers(rw, stream)
	}},
	"never answers": {hangs: true, serve: func(*dialect, http.ResponseWriter, []byte, bool) {}},
	"no body": {hangs: true, serve: func(_ *dialect, rw http.ResponseWriter, _ []byte, stream bool) {
		rw.Header().Set("Content-Type", "application/json")
		if stream {
			rw.Header().Set("Content-Type", "text/event-stream")
		}
		flush(rw)
	}},
	"hangs behind text": {late: true, hangs: true, serve: func(d *dialect, rw http.ResponseWriter, _ []byte, stream bool) {
		if stream {
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(rw, d.begin)
		} else {
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, d.reply[:len(d.reply)-1])
		}
		flush(rw)
	}},
	"cut behind text": {late: true, serve: func(d *dialect, rw http.ResponseWriter, _ []byte, stream bool) {
		illnesses["cut behind text"].serve(d, rw, stream)
	}},
	"slow": {well: true, serve: func(d *dialect, rw http.ResponseWriter, _ []byte, stream bool) {
		time.Sleep(50 * time.Millisecond)
		d.answers(rw, stream)
	}},
}

// illLimit is how long a worker may hang. Healthy workers report their loads, as SGLang does, so that
// none is blamed for the time that it takes on a busy machine.
const illLimit = 3 * time.Second

func shortLimits(c *request.Config) {
	c.FirstByteTimeout, c.StallTimeout, c.Pair.Timeout = illLimit, illLimit, illLimit
}

// awaitReports waits until the router knows the loads of all workers but one.
func (h *harness) awaitReports(ill *fakeWorker) {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		for _, r := range h.Registry.Snapshot().Ranks {
			if r.Worker.URL != ill.URL && !r.Load.Reporting(time.Now()) {
				return false
			}
		}
		return true
	}, patience, tick)
}

// saysOnly answers with status 200, whatever it is.
func saysOnly(rw http.ResponseWriter, body string, stream bool) {
	rw.Header().Set("Content-Type", "application/json")
	if stream {
		rw.Header().Set("Content-Type", "text/event-stream")
		body = "data: " + body + "\n\n" + doneEvent
	}
	_, _ = io.WriteString(rw, body)
}

const healthyClients = 8

// askWell sends the requests of healthy clients, and returns how many have got their answer.
func askWell(h *harness, d *dialect, stream bool, each int) (good int) {
	var n atomic.Int64
	var wg sync.WaitGroup
	for c := range healthyClients {
		wg.Go(func() {
			for i := range each {
				resp, got, err := h.Try(http.MethodPost, h.Base+d.path, d.request(fmt.Sprintf("client %d asks %d", c, i), stream),
					"X-Forwarded-For", fmt.Sprintf("10.0.1.%d", c))
				if d.good(resp, got, err, stream) {
					n.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return int(n.Load())
}

// TestHealthyClientsBesideAnIllWorker: of the answers that healthy clients have without it, they have
// at least 0.7 beside one ill worker of four, be they whole or two of them of each kind of a pair, and
// all where nothing was sent to them before. Its breaker opens, and no other one.
func TestHealthyClientsBesideAnIllWorker(t *testing.T) {
	t.Parallel()
	for _, of := range []string{"whole", "prefill", "decode"} {
		for kind, ill := range illWorkers {
			for name, d := range dialects {
				for _, stream := range []bool{false, true} {
					switch {
					case ill.late && (!stream && !ill.hangs || of == "prefill"): // which has no text
						continue
					case (!allDialects || of != "whole" || ill.hangs) && name != "chat": // TestOneGatewayOpensTheBreakerOfAnIllWorker has all
						continue
					case (!ill.late || of != "whole") && !allDialects && stream != ((len(kind)+len(of)+len(name))%2 == 0):
						continue
					}
					each := healthyEach
					if ill.late || ill.hangs {
						each = 12 // else those that are lost until the breaker opens are too large a share
					}
					t.Run(fmt.Sprintf("%s/%s/%s/stream=%t", of, kind, name, stream), func(t *testing.T) {
						t.Parallel()
						all := healthyClients * each
						serve := func(rw http.ResponseWriter, r *http.Request, body []byte) {
							ill.serve(&d, rw, body, stream)
							if ill.hangs {
								<-r.Context().Done()
							}
						}
						workers, bad := illWhole(t, &d, stream, serve), 0
						if of != "whole" {
							bad = map[string]int{"prefill": 0, "decode": 2}[of]
							workers = illPairs(t, &d, stream, bad, ill.late || ill.well, serve)
						}
						options := []option{trusting(t), withPolicy("round-robin")}
						if ill.hangs {
							options = append(options, withConfig(shortLimits))
						}
						h := start(t, workers, options...)
						h.awaitReports(workers[bad])
						good, opens := askWell(h, &d, stream, each), &h.Worker(workers[bad]).Breaker
						if !ill.late && !ill.hangs { // a worker that is looked at anew may have got few requests
							for round := 0; !ill.well && opens.Opened() == 0; round++ {
								require.Less(t, round, 60, "its breaker does not open")
								good, all = good+askWell(h, &d, stream, each), all+healthyClients*each
								h.AwaitIdle()
							}
						}
						t.Logf("%d of %d answers are good", good, all)
						if ill.late || ill.hangs {
							assert.GreaterOrEqual(t, 10*good, 7*all)
						} else {
							assert.Equal(t, all, good)
						}
						h.AwaitIdle()
						for i, w := range workers {
							assert.Equal(t, i == bad && !ill.well, h.Worker(w).Breaker.Opened() > 0, "worker %d", i)
						}
					})
				}
			}
		}
	}
}

// illWhole makes four workers, the first of them ill.
func illWhole(t *testing.T, d *dialect, stream bool, serve func(http.ResponseWriter, *http.Request, []byte)) (workers []*fakeWorker) {
	t.Helper()
	for i := range 4 {
		w := newFakeWorker(t, info(1))
		w.On("/abort_request", noAborts)
		var running atomic.Int64
		if i > 0 {
			reports(&fakeLeg{fakeWorker: w}, &running, 256)
		}
		w.On(d.path, func(rw http.ResponseWriter, r *http.Request) {
			running.Add(1)
			defer running.Add(-1)
			if body, _ := io.ReadAll(r.Body); i == 0 {
				serve(rw, r, body)
				return
			}
			d.answers(rw, stream)
		})
		workers = append(workers, w)
	}
	return workers
}

// illPairs makes two prefill and two decode workers, one of them ill, which meets its partner or
// does not.
func illPairs(t *testing.T, d *dialect, stream bool, bad int, meets bool, serve func(http.ResponseWriter, *http.Request, []byte)) (workers []*fakeWorker) {
	t.Helper()
	p, q := newPair(t, 2, 2, 1)
	for i, l := range append(p, q...) {
		l.On("/abort_request", noAborts)
		var running atomic.Int64
		if i != bad {
			reports(l, &running, 256)
		}
		l.On(d.path, func(rw http.ResponseWriter, r *http.Request) {
			running.Add(1)
			defer running.Add(-1)
			body, _ := io.ReadAll(r.Body)
			var b pairBody
			switch {
			case json.Unmarshal(body, &b) != nil:
				rw.WriteHeader(http.StatusBadRequest)
			case i == bad && !meets:
				serve(rw, r, body)
			case !l.waits(r, l.arrives(&b)):
			case i == bad:
				serve(rw, r, body)
			default:
				d.answers(rw, stream)
			}
		})
		workers = append(workers, l.fakeWorker)
	}
	return workers
}

// TestHealthyClientsBesideAnIllClient: the healthy clients have all their answers, and no breaker
// opens.
func TestHealthyClientsBesideAnIllClient(t *testing.T) {
	t.Parallel()
	d := dialects["completions"]
	sends := func(ctx context.Context, h *harness, body string) *http.Response {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.Base+d.path, strings.NewReader(body))
		if err != nil {
			return nil
		}
		req.Header.Set("X-Forwarded-For", "10.0.0.1")
		resp, err := h.Client.Do(req)
		if err != nil {
			return nil
		}
		return resp
	}
	for kind, ill := range map[string]func(h *harness, nth int, arrived <-chan struct{}) (end func()){
		"its requests fail": func(h *harness, nth int, _ <-chan struct{}) func() {
			if resp := sends(context.Background(), h, d.request(fmt.Sprintf("%s %d", killer, nth), nth%2 == 0)); resp != nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			return nil
		},
		"it leaves at once": func(h *harness, nth int, arrived <-chan struct{}) func() {
			ctx, leave := context.WithCancel(context.Background())
			go func() {
				<-arrived
				leave()
			}()
			if resp := sends(ctx, h, d.request(fmt.Sprintf("wait %d", nth), nth%2 == 0)); resp != nil {
				_ = resp.Body.Close()
			}
			leave()
			return nil
		},
		"it does not read": func(h *harness, nth int, _ <-chan struct{}) func() {
			if nth >= unreadStreams {
				return nil
			}
			ctx, leave := context.WithCancel(context.Background())
			if resp := sends(ctx, h, d.request(fmt.Sprintf("much %d", nth), true)); resp != nil {
				return func() {
					leave()
					_ = resp.Body.Close()
				}
			}
			return leave
		},
	} {
		for _, pairs := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/pairs=%t", kind, pairs), func(t *testing.T) {
				t.Parallel()
				arrived := make(chan struct{})
				answers := func(rw http.ResponseWriter, r *http.Request, body []byte, prefill bool) {
					stream := bytes.Contains(body, []byte(`"stream":true`))
					switch {
					case prefill:
						d.answers(rw, stream)
					case bytes.Contains(body, []byte(killer)):
						rw.WriteHeader(http.StatusInternalServerError)
					case bytes.Contains(body, []byte(`"wait`)):
						arrived <- struct{}{}
						<-r.Context().Done()
					case bytes.Contains(body, []byte(`"much`)):
						rw.Header().Set("Content-Type", "text/event-stream")
						for r.Context().Err() == nil {
							if _, err := io.WriteString(rw, strings.Repeat(choicesEvent, 64)); err != nil {
								return
							}
						}
					default:
						d.answers(rw, stream)
					}
				}
				var workers []*fakeWorker
				if pairs {
					p, q := newPair(t, 2, 2, 1)
					for _, l := range append(p, q...) {
						l.On("/abort_request", noAborts)
						l.On(d.path, func(rw http.ResponseWriter, r *http.Request) {
							body, _ := io.ReadAll(r.Body)
							var b pairBody
							if json.Unmarshal(body, &b) == nil && l.waits(r, l.arrives(&b)) {
								answers(rw, r, body, l.prefill)
							}
						})
						workers = append(workers, l.fakeWorker)
					}
				}
				for range 4 - len(workers) {
					w := newFakeWorker(t, info(1))
					w.On("/abort_request", noAborts)
					w.On(d.path, func(rw http.ResponseWriter, r *http.Request) {
						body, _ := io.ReadAll(r.Body)
						answers(rw, r, body, false)
					})
					workers = append(workers, w)
				}
				h := start(t, workers, trusting(t))
				stop := make(chan struct{})
				var wg sync.WaitGroup
				wg.Go(func() {
					var ends []func()
					for nth := 0; nth < 40; nth++ {
						select {
						case <-stop:
							nth = 40
						default:
							if end := ill(h, nth, arrived); end != nil {
								ends = append(ends, end)
							}
						}
					}
					for _, end := range ends {
						end()
					}
				})
				for _, stream := range []bool{false, true} {
					assert.Equal(t, healthyClients*healthyEach, askWell(h, &d, stream, healthyEach))
				}
				close(stop)
				wg.Wait()
				h.AwaitIdle()
				for i, w := range workers {
					assert.Zero(t, h.Worker(w).Breaker.Opened(), "worker %d", i)
				}
			})
		}
	}
}
