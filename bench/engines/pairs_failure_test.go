//go:build engines

package engines_test

import (
	"context"
	"io"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"
)

// pairClientGone cancels requests while they are answered, and while a prefill engine waits for a decode engine that hangs.
func (p *proof) pairClientGone(t *testing.T) {
	p.clientGone(t)
	r := startRouter(t, p.keeper, p.dir, p.binary, "kv", p.engines)
	defer r.proc.stop(5 * time.Second)
	for _, stream := range []bool{true, false} {
		for _, e := range p.legs("decode") {
			e.proc.signal(t, syscall.SIGSTOP)
		}
		prefills := p.legs("prefill")
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			prompt := randomIDs(rand.New(rand.NewPCG(5, 5)), 100)
			if answer, err := open(ctx, r.url, prompt, longGeneration, stream); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		}()
		waitRunning(t, prefills, 1)
		cancel()
		took := waitRunning(t, prefills, 0)
		<-gone
		for _, e := range p.legs("decode") {
			e.proc.signal(t, syscall.SIGCONT)
		}
		rest := waitRunning(t, p.engines, 0)
		p.note(t, "client gone, decode engines stopped (stream %v): the prefill engines were idle %.2f s later, the others %.2f s after they went on",
			stream, took.Seconds(), rest.Seconds())
		r.waitIdle(t)
		r.waitReady(t, len(p.engines))
	}
}

// legs returns the engines of one mode.
func (p *proof) legs(mode string) []*engine {
	var legs []*engine
	for _, e := range p.engines {
		if e.mode == mode {
			legs = append(legs, e)
		}
	}
	return legs
}

// pairKilled takes a prefill engine away in the middle of traffic, then a decode engine, and brings both back on their ports.
func (p *proof) pairKilled(t *testing.T) {
	r := startRouter(t, p.keeper, p.dir, p.binary, "kv", p.engines)
	defer r.proc.stop(5 * time.Second)
	traffic := startTraffic(t.Context(), r.url)
	defer traffic.stop()
	prefill, decode := p.legs("prefill")[1], p.legs("decode")[1]
	for _, victim := range []*engine{prefill, decode} {
		traffic.wait(t, 20, "by "+victim.name(), func(o outcome) bool { return o.by(victim) })
		traffic.wait(t, 40, "before the kill", func(outcome) bool { return true })
		p.killBusy(t, r, traffic, victim)
	}
	for _, victim := range []*engine{prefill, decode} {
		victim.start(t, p.keeper, p.dir)
	}
	for _, victim := range []*engine{prefill, decode} {
		ready := victim.waitReady(t, 20*time.Millisecond)
		r.waitStatus(t, "seen "+victim.name()+" again", func(st routerStatus) bool {
			return slices.ContainsFunc(st.Workers, func(w workerStatus) bool { return w.URL == victim.url && w.State == "ready" })
		})
		seen := time.Since(ready)
		back := traffic.wait(t, 1, "by the engine that came back", func(o outcome) bool { return o.by(victim) })
		p.note(t, "%s back: the router knew %.2f s after it was ready, a request was answered by it after %.2f s", victim.name(),
			seen.Seconds(), back.Sub(ready).Seconds())
	}
	traffic.wait(t, 20, "by both that came back", func(o outcome) bool { return o.by(prefill) || o.by(decode) })
	traffic.stop()
	p.checkTraffic(t, traffic)
	cut := 0
	for _, o := range traffic.outcomes {
		if o.err != nil && o.began && !o.told {
			cut++
			t.Logf("cut (%s) on %q and %q: %v", o.api, o.helper, o.worker, o.err)
		}
	}
	if cut > 0 {
		t.Errorf("%d streams ended without an error that says so", cut)
	}
	r.waitIdle(t)
	waitRunning(t, p.engines, 0)
}

// by reports whether an engine had a part in the answer.
func (o *outcome) by(e *engine) bool { return o.worker == e.url || o.helper == e.url }

// killBusy kills an engine that has requests, as the router counts them. It notes how long after that the answers came to the
// requests that were under way.
func (p *proof) killBusy(t *testing.T, r *router, traffic *traffic, victim *engine) {
	t.Helper()
	before := traffic.times(func(o *outcome) bool { return o.err == nil })
	busy := func(st routerStatus) bool {
		return slices.ContainsFunc(st.Workers, func(w workerStatus) bool { return w.URL == victim.url && w.InFlight > 0 })
	}
	for {
		r.waitStatus(t, "given "+victim.name()+" a request", busy)
		victim.proc.signal(t, syscall.SIGSTOP) // or the request may be answered before the kill
		if busy(r.status(t)) {
			break
		}
		victim.proc.signal(t, syscall.SIGCONT)
	}
	killed := time.Now()
	victim.proc.kill()
	traffic.wait(t, 60, "after the kill", func(outcome) bool { return true })
	var after []time.Duration
	broken := 0
	for _, o := range traffic.all() {
		switch end := o.at.Add(o.took); {
		case !o.at.Before(killed) || !end.After(killed):
		case o.err == nil:
			after = append(after, end.Sub(killed))
		default:
			broken++
		}
	}
	slices.Sort(after)
	p.note(t, "%s killed: %d requests under way were answered, the last %.2f s after the kill, %d streams had begun and ended with an error; before it a request took %s (median) to %s (the longest)",
		victim.name(), len(after), percentile(after, 100).Seconds(), broken, millis(percentile(before, 50)), millis(percentile(before, 100)))
	late := traffic.times(func(o *outcome) bool { return o.err == nil && o.at.After(killed) })
	p.note(t, "%s killed: the next %d requests took %s (median) to %s (the longest)", victim.name(), len(late),
		millis(percentile(late, 50)), millis(percentile(late, 100)))
}
