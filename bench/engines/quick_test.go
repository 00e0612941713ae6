//go:build engines

package engines_test

import (
	"testing"
	"time"
)

const (
	// quickPool is the tokens that the cache of an engine alone holds: the conversations are more, so
	// that they need both engines, and pages move from their caches to host memory.
	quickPool = "2048"
	// quickOverlaps is how many requests TestQuick sends for each check of overlaps: enough for every
	// API, streamed and not, and for a third of the pages to be evicted.
	quickOverlaps = 80
	// quickFirst and quickOthers are how many prompts of the first form and of each other TestQuick
	// compares.
	quickFirst, quickOthers = 4, 2
)

// TestQuick is what CI runs: one check of each kind, on two engines with a KV tier and on one pair, which all start once
// and at the same time. A check leaves the engines to the next one as it found them, but for the last, which kills one.
func TestQuick(t *testing.T) {
	began := time.Now()
	tier := &tierProof{keeper: newKeeper(), dir: t.TempDir(), a: &engine{index: 0}, b: &engine{index: 1}}
	tier.attach(t, 1)
	two := []*engine{tier.a, tier.b}
	for _, e := range two {
		e.flags = append(e.flags, "--max-total-tokens", quickPool)
	}
	pair := []*engine{
		{index: 0, backend: "nixl", mode: "prefill", flags: dear(t)},
		{index: 1, backend: "nixl", mode: "decode", flags: dear(t)},
	}
	all := append(two[:2:2], pair...)
	launch(t, tier.keeper, tier.dir, all)
	tier.binary = buildWarmpath(t, tier.dir) // while they start
	waitAll(t, all)
	p := &proof{keeper: tier.keeper, dir: tier.dir, binary: tier.binary, engines: all}
	p.note(t, "all engines are ready after %.0f s and %.0f s of CPU", time.Since(began).Seconds(), p.engineCPU(t))
	run := func(name string, engines []*engine, check func(*testing.T)) {
		p.engines = engines
		t.Run(name, check)
	}
	run("overlap, engines", two, func(t *testing.T) { p.overlap(t, "two engines", quickOverlaps) })
	run("overlap, pair", pair, func(t *testing.T) { p.overlap(t, "a pair over nixl", quickOverlaps) })
	run("same answers, engine", two[1:], func(t *testing.T) { p.same(t, two[0], quickFirst, quickOthers) })
	run("same answers, pair", pair, func(t *testing.T) { p.same(t, two[0], quickFirst, quickOthers) })
	run("tier", two, func(t *testing.T) {
		tier.surround(t)
		tier.hits(t, 1)
		tier.routed(t)
	})
	run("killed", two, p.quickKilled)
	keep(t, "quick.txt", p.notes.String()+tier.notes.String())
}

// quickKilled kills an engine that has requests: all that had not begun to answer go on, on the other one.
func (p *proof) quickKilled(t *testing.T) {
	r := startRouter(t, p.keeper, p.dir, p.binary, "kv", p.engines)
	defer r.proc.stop(5 * time.Second)
	traffic := startTraffic(t.Context(), r.url)
	defer traffic.stop()
	victim := p.engines[1]
	traffic.wait(t, 10, "by "+victim.name(), func(o outcome) bool { return o.by(victim) })
	p.killBusy(t, r, traffic, victim)
	traffic.stop()
	p.checkTraffic(t, traffic)
	r.waitIdle(t)
	waitRunning(t, p.engines[:1], 0)
}
