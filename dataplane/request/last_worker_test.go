package request_test

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/request"
)

// quickHung finds a hang within two seconds. A machine that stalls makes more workers slow, which
// costs time only.
func quickHung(c *worker.Config) { c.Timeout, c.HangAfter = 500*time.Millisecond, 600*time.Millisecond }

// hanging is a worker that hangs, its probes included, until the test lets it go on.
type hanging struct {
	*fakeWorker
	arrived chan struct{} // a request each
	probes  atomic.Int64  // that were not answered
	goOn    chan struct{}
}

// hang makes w hang. Its requests are answered by then once it goes on.
func hang(w *fakeWorker, then http.HandlerFunc, paths ...string) *hanging {
	g := &hanging{fakeWorker: w, arrived: make(chan struct{}, 64), goOn: make(chan struct{})}
	for _, path := range paths {
		w.On(path, func(rw http.ResponseWriter, r *http.Request) {
			g.arrived <- struct{}{}
			select {
			case <-g.goOn:
				then(rw, r)
			case <-r.Context().Done():
			}
		})
	}
	return g
}

// stopsAnswering makes the probes hang, too.
func (g *hanging) stopsAnswering() {
	g.On("/ready", func(_ http.ResponseWriter, r *http.Request) {
		g.probes.Add(1)
		select {
		case <-g.goOn:
		case <-r.Context().Done():
		}
	})
}

// isHung waits until enough further probes have failed for the hang to be found and handled.
func (g *hanging) isHung(t *testing.T) {
	t.Helper()
	before := g.probes.Load()
	require.Eventually(t, func() bool { return g.probes.Load() >= before+4 }, patience, tick)
}

type waited struct {
	status int
	body   string
	took   time.Duration
}

// asks sends a request and returns its answer when it is complete.
func (h *harness) asks(body string) <-chan waited {
	out := make(chan waited, 1)
	begun := time.Now()
	go func() {
		resp, got, err := h.Try(http.MethodPost, h.Base+"/generate", body)
		assert.NoError(h.t, err)
		out <- waited{statusOf(resp), got, time.Since(begun)}
	}()
	return out
}

// lastHangs starts a router over one worker, which hangs after its first request and gets a second one.
func lastHangs(t *testing.T, options ...option) (h *harness, g *hanging, before, during <-chan waited) {
	t.Helper()
	g = hang(newFakeWorker(t, info(1)), givesReply, "/generate")
	h = start(t, []*fakeWorker{g.fakeWorker}, append(options, withWorkers(quickHung))...)
	before, during = h.hangBetween(t, g, idsBody)
	return h, g, before, during
}

// hangBetween sends one request, has g hang, and sends another one.
func (h *harness) hangBetween(t *testing.T, g *hanging, body string) (before, during <-chan waited) {
	t.Helper()
	before = h.asks(body)
	<-g.arrived
	g.stopsAnswering()
	g.isHung(t)
	return before, h.asks(body)
}

// wantReplies wants both answers.
func wantReplies(t *testing.T, want string, before, during <-chan waited) {
	t.Helper()
	for _, a := range []waited{<-before, <-during} {
		assert.Equal(t, http.StatusOK, a.status)
		assert.Equal(t, want, a.body)
	}
}

func givesReply(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, idsReply) }

// The last worker hangs and goes on: requests from before and during the hang get their
// answers, and none is aborted.
func TestLastWorkerHangsAndGoesOn(t *testing.T) {
	t.Parallel()
	_, g, before, during := lastHangs(t)
	<-g.arrived
	g.isHung(t)
	close(g.goOn)
	wantReplies(t, idsReply, before, during)
	assert.Empty(t, g.Aborted)
	assert.Empty(t, g.arrived, "sent again")
}

// The last worker never goes on: both requests wait until their deadline and get 504.
func TestLastWorkerHangsForGood(t *testing.T) {
	t.Parallel()
	const deadline = 3 * time.Second
	_, g, before, during := lastHangs(t, withConfig(func(c *request.Config) { c.FirstByteTimeout = deadline }))
	for _, a := range []waited{<-before, <-during} {
		assert.Equal(t, http.StatusGatewayTimeout, a.status)
		assert.GreaterOrEqual(t, a.took, deadline)
	}
	close(g.goOn)
}

// TestWaitingRequestsMoveToANewWorker: a second worker becomes ready: it takes over both
// requests, and only then the first one gets their aborts.
func TestWaitingRequestsMoveToANewWorker(t *testing.T) {
	t.Parallel()
	late := newFakeWorker(t, info(1))
	late.Answers("/generate", idsReply)
	h, g, before, during := lastHangs(t)
	<-g.arrived
	g.isHung(t)
	assert.Empty(t, g.Aborted)
	_, err := h.Registry.Add(late.URL)
	require.NoError(t, err)
	wantReplies(t, idsReply, before, during)
	close(g.goOn)
	<-g.Aborted
	<-g.Aborted
}

// A stream that has sent its header is bounded by the same deadline, and not by StallTimeout.
func TestStreamOfLastWorkerHangs(t *testing.T) {
	t.Parallel()
	const deadline = 3 * time.Second
	w := newFakeWorker(t, info(1))
	g := hang(w, givesReply)
	begun := make(chan struct{}, 4)
	w.On("/generate", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		rw.WriteHeader(http.StatusOK)
		flush(rw)
		begun <- struct{}{}
		<-r.Context().Done()
	})
	h := start(t, []*fakeWorker{w}, withWorkers(quickHung), withConfig(func(c *request.Config) {
		c.FirstByteTimeout, c.StallTimeout = deadline, time.Hour
	}))
	a := h.asks(`{"text":"x","stream":true}`)
	<-begun
	g.stopsAnswering()
	got := <-a
	assert.Equal(t, http.StatusGatewayTimeout, got.status)
	assert.GreaterOrEqual(t, got.took, deadline)
	close(g.goOn)
}

// Each leg is the last of its role.
func TestLastLegHangs(t *testing.T) {
	t.Parallel()
	for _, leg := range []string{"prefill", "decode"} {
		t.Run(leg, func(t *testing.T) {
			p, d := newPair(t, 1, 1, 1)
			last := p[0]
			if leg == "decode" {
				last = d[0]
			}
			g := hang(last.fakeWorker, nil)
			last.does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
				g.arrived <- struct{}{}
				select {
				case <-g.goOn:
					meets(l, rw, r, b)
				case <-r.Context().Done():
				}
			})
			h := startPair(t, p, d, withWorkers(quickHung))
			before, during := h.hangBetween(t, g, pairRequest(true))
			<-g.arrived
			g.isHung(t)
			close(g.goOn)
			wantReplies(t, pairReply(true), before, during)
			assert.Empty(t, last.Aborted)
			noneRunning(t, h)
		})
	}
}

// A decode worker that hangs and is the last one may lag for longer than the pair's timeout.
func TestLastDecodeWorkerLagsWhileItHangs(t *testing.T) {
	t.Parallel()
	p, d := newPair(t, 1, 1, 1)
	g := hang(d[0].fakeWorker, nil)
	d[0].does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
		l.waits(r, l.arrives(b))
		g.arrived <- struct{}{}
		select {
		case <-g.goOn:
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(rw, pairReply(true))
		case <-r.Context().Done():
		}
	})
	h := startPair(t, p, d, withWorkers(quickHung), withConfig(func(c *request.Config) { c.Pair.Timeout = 2 * time.Second }))
	g.stopsAnswering()
	g.isHung(t)
	a := h.asks(pairRequest(true))
	<-g.arrived
	for range 4 {
		g.isHung(t)
	}
	close(g.goOn)
	got := <-a
	assert.Equal(t, http.StatusOK, got.status)
	assert.Equal(t, pairReply(true), got.body)
}
