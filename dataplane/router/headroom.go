package router

import (
	"runtime"
	"runtime/debug"
	facts "runtime/metrics"
)

const (
	// gcHeadroom is what the heap may grow at least before the collector runs. Half of the 16 MB that a small router has in use is soon
	// allocated where workers' events come: prompts of 64 KB are 350 requests, of which each pays 11 µs of 200 for the collector. 24 MB made
	// that 4 µs, but took a router that sees nothing but such prompts above the 60 MB that it is to stay below.
	gcHeadroom = 12 << 20
	// gcMost bounds the percentage while next to nothing is in use.
	gcMost = 400
)

// gcPercentFor returns how much a heap of which so much is in use may grow, in percent.
func gcPercentFor(live uint64) int {
	return min(gcMost, max(gcPercent, int(gcHeadroom*100/max(live, 1))))
}

// headroom sets the collector's percentage after each of its runs, so that a small heap has gcHeadroom and a large one gcPercent. It is an
// object that nothing refers to: the collector so tells when it has run.
type headroom struct {
	set int
	// Objects below 16 bytes without pointers share memory with others, and live as long as the longest of these: mostly forever.
	_ *byte
}

// watch begins anew, with another object.
func (h headroom) watch() { runtime.SetFinalizer(&h, (*headroom).collected) }

// collected runs after each collection. It ends where someone else has set the percentage.
func (h *headroom) collected() {
	now := []facts.Sample{{Name: "/gc/gogc:percent"}, {Name: "/gc/heap/live:bytes"}}
	facts.Read(now)
	if now[0].Value.Uint64() != uint64(h.set) {
		return
	}
	// To set it stops all goroutines for a moment: small changes are not worth that.
	if want := gcPercentFor(now[1].Value.Uint64()); want > h.set+h.set/8 || want < h.set-h.set/8 {
		debug.SetGCPercent(want)
		h.set = want
	}
	h.watch()
}
