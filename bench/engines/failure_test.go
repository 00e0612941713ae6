//go:build engines

package engines_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// servesWithin is the promise: a worker that is ready again gets requests within this time. The test notes what it took and
	// fails only when no noise of the machine can excuse it: after ten times as long, in which others have answered more than
	// servesMissed requests, as an idle machine does in half of that.
	servesWithin = 2 * time.Second
	servesAtAll  = 10 * servesWithin
	servesMissed = 200
	// abortWithin is the promise for a client that has gone: the engines stop working for it. A slow machine may need longer, but
	// an engine then makes fewer tokens in the same time: more than abortTokens of the longGeneration, which is what an idle machine
	// makes in abortWithin, are work for nobody whatever the machine does. The whole generation is 8 s or more on a CPU.
	abortWithin    = 2 * time.Second
	abortTokens    = 400
	longGeneration = 1500
)

// proof is what the parts of the test share.
type proof struct {
	keeper  *keeper
	dir     string
	binary  string
	engines []*engine
	rows    []measured
	notes   strings.Builder
}

// clientGone cancels long requests and watches the engines become idle.
func (p *proof) clientGone(t *testing.T) {
	t.Helper()
	r := startRouter(t, p.keeper, p.dir, p.binary, "kv", p.engines)
	defer r.proc.stop(5 * time.Second)
	for _, stream := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			prompt := randomIDs(rand.New(rand.NewPCG(3, uint64(len(p.rows)))), 100)
			if answer, err := open(ctx, r.url, prompt, longGeneration, stream); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		}()
		waitRunning(t, p.engines, 1)
		before := decoded(t, p.engines)
		cancel()
		took := waitRunning(t, p.engines, 0)
		<-gone
		made := decoded(t, p.engines) - before
		p.note(t, "client gone (stream %v): the engines were idle %.2f s and %d tokens later", stream, took.Seconds(), made)
		if took > abortWithin && made > abortTokens {
			t.Errorf("client gone (stream %v): the engines worked on for %.2f s and made %d tokens, want at most %v or %d",
				stream, took.Seconds(), made, abortWithin, abortTokens)
		}
	}
}

// waitRunning waits until the engines together work on that many requests.
func waitRunning(t *testing.T, engines []*engine, want int) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		running := 0
		for _, e := range engines {
			running += e.running(t)
		}
		if running == want {
			return time.Since(began)
		}
		if time.Since(began) > patience {
			t.Fatalf("the engines work on %d requests for %v, want %d", running, patience, want)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// decoded is how many tokens the engines have generated since they started.
func decoded(t *testing.T, engines []*engine) int {
	t.Helper()
	sum := 0.0
	for _, e := range engines {
		answer, err := http.Get(e.url + "/metrics")
		if err != nil {
			t.Fatalf("cannot read the metrics of %s: %v", e.name(), err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			t.Fatalf("cannot read the metrics of %s: %v", e.name(), err)
		}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
			if !strings.HasPrefix(name, "sglang:realtime_tokens_total{") || !strings.Contains(name, `mode="decode"`) {
				continue
			}
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatalf("the metrics of %s say %q: %v", e.name(), line, err)
			}
			sum += n
		}
	}
	return int(sum)
}

// engineKilled takes one engine away in the middle of traffic and brings it back on the same ports.
func (p *proof) engineKilled(t *testing.T) {
	r := startRouter(t, p.keeper, p.dir, p.binary, "kv", p.engines)
	defer r.proc.stop(5 * time.Second)
	victim := p.engines[1]
	traffic := startTraffic(t.Context(), r.url)
	defer traffic.stop()

	traffic.wait(t, 60, "before the kill", func(outcome) bool { return true })
	killed := time.Now()
	victim.proc.kill()
	traffic.wait(t, 60, "after the kill", func(outcome) bool { return true })
	p.note(t, "engine killed: 60 requests answered within %.2f s of the kill", time.Since(killed).Seconds())

	victim.start(t, p.keeper, p.dir)
	ready := victim.waitReady(t, 20*time.Millisecond)
	back := traffic.wait(t, 1, "by the engine that came back", func(o outcome) bool { return o.worker == victim.url })
	p.note(t, "engine back: a request was answered by it %.2f s after it was ready", back.Sub(ready).Seconds())
	if missed := traffic.between(ready, back); back.Sub(ready) > servesAtAll && missed > servesMissed {
		t.Errorf("the engine serves %.2f s and %d answers after it is ready, want %v and at most %v", back.Sub(ready).Seconds(), missed, servesWithin, servesAtAll)
	}
	// Now both are warm: the exactness measured below is that of both.
	traffic.wait(t, 20, "by the engine that came back", func(o outcome) bool { return o.worker == victim.url })
	traffic.stop()
	p.checkTraffic(t, traffic)

	client := startOpenAI(t, p.keeper, p.dir, r.url)
	after := measure("one at a time, after the restart", "kv", func() []outcome {
		return sequential(t.Context(), r.url, client, 4, 100)
	})
	p.add(t, after)
	p.note(t, "after the restart: %.0f %% of lone requests went to the engine that came back", 100*after.share(victim.url))
}

// checkTraffic allows no error that a client could see, but on answers that had begun on the engine that was killed.
func (p *proof) checkTraffic(t *testing.T, traffic *traffic) {
	t.Helper()
	broken, failed := 0, 0
	for _, o := range traffic.outcomes {
		switch {
		case o.err == nil:
		case o.began:
			broken++
		default:
			if failed++; failed <= 20 {
				t.Logf("failed (%s) on %q: %v", o.api, o.worker, o.err)
			}
		}
	}
	p.note(t, "engine killed and restarted under traffic: %d requests, %d streams cut after their first byte, %d other errors",
		len(traffic.outcomes), broken, failed)
	if failed > 0 {
		t.Errorf("%d requests that had not begun to answer failed", failed)
	}
}

// traffic is a few clients that send short conversations without a pause.
type traffic struct {
	cancel   context.CancelFunc
	clients  sync.WaitGroup
	came     chan struct{} // one token when an outcome has come
	mu       sync.Mutex
	outcomes []outcome
	at       []time.Time
}

func startTraffic(ctx context.Context, base string) *traffic {
	ctx, cancel := context.WithCancel(ctx)
	tr := &traffic{cancel: cancel, came: make(chan struct{}, 1)}
	for n := range 4 {
		tr.clients.Go(func() {
			for turns := 0; ctx.Err() == nil; turns++ {
				c := newConversation(5, turns*4+n, kindGenerate)
				for c.turn < 3 && ctx.Err() == nil {
					// Not the traffic's context: stopping it must not look like an error.
					o := c.next(context.WithoutCancel(ctx), base, nil, n%2 == 0)
					tr.add(o)
					if o.err != nil {
						<-time.After(10 * time.Millisecond) // A router that fails fast must not drown the log.
						break                               // The history has a hole now.
					}
				}
			}
		})
	}
	return tr
}

// all returns the outcomes so far.
func (tr *traffic) all() []outcome {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return slices.Clone(tr.outcomes)
}

// between counts the answers that came in a span of time.
func (tr *traffic) between(from, to time.Time) (n int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, at := range tr.at {
		if at.After(from) && at.Before(to) {
			n++
		}
	}
	return n
}

// times returns, sorted, what the requests took that fit.
func (tr *traffic) times(fits func(*outcome) bool) []time.Duration {
	var took []time.Duration
	for _, o := range tr.all() {
		if fits(&o) {
			took = append(took, o.took)
		}
	}
	slices.Sort(took)
	return took
}

func (tr *traffic) add(o outcome) {
	tr.mu.Lock()
	tr.outcomes = append(tr.outcomes, o)
	tr.at = append(tr.at, time.Now())
	tr.mu.Unlock()
	select {
	case tr.came <- struct{}{}:
	default:
	}
}

// wait returns the moment at which n more answers that fit have come.
func (tr *traffic) wait(t *testing.T, n int, what string, fits func(outcome) bool) time.Time {
	t.Helper()
	tr.mu.Lock()
	next := len(tr.outcomes)
	tr.mu.Unlock()
	limit := time.After(answersIn)
	for {
		tr.mu.Lock()
		for ; next < len(tr.outcomes); next++ {
			if o := tr.outcomes[next]; o.err == nil && fits(o) {
				if n--; n == 0 {
					at := tr.at[next]
					tr.mu.Unlock()
					return at
				}
			}
		}
		tr.mu.Unlock()
		select {
		case <-tr.came:
		case <-limit:
			t.Fatalf("%d answers %s are missing after %v", n, what, answersIn)
		}
	}
}

// stop ends the traffic after the answers under way.
func (tr *traffic) stop() {
	tr.cancel()
	tr.clients.Wait()
}
