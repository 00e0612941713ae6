package store

import (
	"sync/atomic"
	"testing"
	"time"
)

// An engine's question pulls nothing over a link that is slower than computing. A hint does, and
// so does a question once the link is faster.
func TestSlowLinkIsNotUsed(t *testing.T) {
	var clock atomic.Int64
	clock.Store(time.Now().UnixNano())
	now := func() time.Time { return time.Unix(0, clock.Load()) }
	a := serve(t, Config{Listen: "127.0.0.1:0", Node: "a"})
	b := serve(t, Config{Node: "b", PrefillRate: 1000, Now: now})
	b.SetPeers([]Peer{{"a", a.Endpoint()}})
	eventually(t, "the peer", func() bool { return b.Stats().Peers == 1 })
	const first, second = `{"model":"tiny","rank":"0/2","tokens":4}`, `{"model":"tiny","rank":"1/2","tokens":4}`
	on, here := dialTier(t, a, first), dialTier(t, b, first)
	dialTier(t, b, second)
	p := b.peers.connected()[0]
	const least = 2 * testBytes / 4 * 1000 // both ranks' pages
	if got := b.peers.leastRate(0); got != least {
		t.Fatalf("%g bytes a second are the least, want %d", got, least)
	}
	tell := func(rate float64) {
		for range rateSamples {
			p.rate.add(1<<20, time.Duration(1<<20/rate*1e9))
		}
	}
	pulls := func(seed uint32, want int, what string) {
		t.Helper()
		hashes := on.store(seed, 16)
		here.finds(what, want, hashes, patience)
		here.check(seed, hashes[:want], patience)
	}
	pulls(1, 16, "nothing is known")
	tell(2 * least)
	pulls(2, 16, "a fast link")
	tell(least / 2)
	p.tried.Store(clock.Load())
	pulls(3, 0, "a slow link")
	if n := b.Stats().TooSlow; n == 0 {
		t.Error("no question is counted as too slow")
	}
	hashes := on.store(4, 16)
	b.peers.findAt("a", 0, hashes, nil)
	b.peers.incoming.await(0, hashes, patience)
	here.finds("hinted", 16, hashes, 0)
	clock.Add(int64(slowRetry))
	pulls(5, 16, "a slow link after a while")
	pulls(6, 0, "but once")
	tell(2 * least)
	pulls(7, 16, "the link has become faster")
	b.cfg.PrefillRate = 0
	if b.peers.leastRate(0) != 0 {
		t.Error("a link can be too slow without a prefill rate")
	}
}
