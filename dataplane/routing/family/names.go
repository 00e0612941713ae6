package family

import "sync/atomic"

// Names names prompts by as much of their beginning as no more than one rank's share of all late requests have in common. The zero value
// is ready.
type Names struct {
	seen atomic.Uint32
	of   [counts]atomic.Uint32 // of beginnings, by hash; those that share a count seem more popular than they are
}

const (
	// counts is four for each request of the window: most of them need one or two beginnings.
	counts = 1 << 14
	// window is after how many requests all counts are halved: a few minutes of a fleet.
	window = 1 << 12
	// few is how many of a beginning never are too many: as long as little has been seen, shares say nothing.
	few = 16
)

// Name counts a prompt and returns the hash of its shortest beginning that few enough share, or else of the longest one. beginning
// returns the hash of the n-th one, from 0, each longer than the one before, and whether there is a next one.
func (f *Names) Name(ranks int, beginning func(n int) (hash uint64, more bool)) uint64 {
	seen := f.seen.Add(1)
	if seen >= window && f.seen.CompareAndSwap(seen, seen/2) {
		for i := range f.of {
			c := &f.of[i]
			c.Store(c.Load() / 2) // what is added meanwhile may be lost: it is a count of late requests at any rate
		}
	}
	for n := 0; ; n++ {
		h, more := beginning(n)
		count := f.of[h%counts].Add(1)
		if !more || uint64(count)*uint64(ranks) <= uint64(max(seen, uint32(few*ranks))) {
			return h
		}
	}
}
