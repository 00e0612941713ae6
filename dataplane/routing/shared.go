package routing

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing/turns"
)

// SharedPredictions are the prompts of all routers that are sent, or about to be, and that no
// event tells of yet. A router predicts its own prompts in the index. The leader must know
// those of the other routers too, or as many workers compute equal prompts that reach several
// routers at once.
//
// A prompt ends shortly after its first byte, when each router has read the events that tell of
// it, or with its router.
type SharedPredictions struct {
	// Known, if set, is told of the prompts. It is set before the first use.
	Known *KnownSessions

	foreign atomic.Int32 // prompts of other routers: a choice takes no lock while there are none

	mu   sync.RWMutex
	all  []sharedPrompt        // the oldest first; guarded by mu
	free [][]uint32            // fingerprints of ended prompts, to be reused; guarded by mu
	ids  map[PromptID]struct{} // of all; guarded by mu
}

// PromptID names a prompt: its router, 0 for this one, and its number there.
type PromptID struct{ Router, Number uint64 }

type sharedPrompt struct {
	id           PromptID
	rank         uint64 // Hash
	until        int64  // unix nanoseconds
	first        uint32 // of fingerprints: most prompts differ there
	tokens       int
	fingerprints []uint32
	turn         turns.Turn // of Known
}

const (
	// maxShared bounds the prompts: a scan of all takes some 25 us where they share a system
	// prompt.
	maxShared = 512
	maxFree   = 64
	// A choice for another router counts for unsentFor, and a sent prompt for sentFor: its
	// router tells when the first byte has come.
	unsentFor = time.Second
	sentFor   = time.Minute
)

// Add notes a prompt that goes to the rank with that hash. It copies fingerprints. sent: its
// router has sent it.
func (x *SharedPredictions) Add(now time.Time, id PromptID, rank uint64, tokens int, fingerprints []uint32, sent bool) {
	if len(fingerprints) == 0 || len(fingerprints) > MaxFingerprints {
		return
	}
	until := now.Add(unsentFor).UnixNano()
	if sent {
		until = now.Add(sentFor).UnixNano()
	}
	x.end(now, id) // it was chosen for before
	turn := x.Known.beginShared(now, rank, tokens, fingerprints)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dropLocked(now, func(e *sharedPrompt) bool { return e.until < now.UnixNano() || e.id == id })
	if len(x.all) >= maxShared {
		oldest := x.all[0].id
		x.dropLocked(now, func(e *sharedPrompt) bool { return e.id == oldest })
	}
	var kept []uint32
	if n := len(x.free); n > 0 {
		kept, x.free = x.free[n-1], x.free[:n-1]
	}
	kept = append(kept[:0], fingerprints...)
	if x.ids == nil {
		x.ids = make(map[PromptID]struct{}, maxShared)
	}
	x.ids[id] = struct{}{}
	x.all = append(x.all, sharedPrompt{id: id, rank: rank, until: until, first: fingerprints[0], tokens: tokens, fingerprints: kept, turn: turn})
	x.countLocked()
}

// Sent notes that the router of a prompt has sent it.
func (x *SharedPredictions) Sent(now time.Time, id PromptID) {
	x.limit(id, func(int64) int64 { return now.Add(sentFor).UnixNano() })
}

// Done notes that a prompt is computed or given up.
func (x *SharedPredictions) Done(now time.Time, id PromptID) {
	x.limit(id, func(until int64) int64 { return min(until, now.Add(endedFor).UnixNano()) })
	x.end(now, id)
}

// end tells Known of the end of a prompt.
func (x *SharedPredictions) end(now time.Time, id PromptID) {
	var turn turns.Turn
	x.mu.Lock()
	if _, ok := x.ids[id]; ok {
		if i := slices.IndexFunc(x.all, func(e sharedPrompt) bool { return e.id == id }); i >= 0 {
			turn, x.all[i].turn = x.all[i].turn, turns.Turn{}
		}
	}
	x.mu.Unlock()
	x.Known.endShared(now, &turn)
}

func (x *SharedPredictions) limit(id PromptID, until func(int64) int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.ids[id]; !ok { // most messages are about unknown prompts
		return
	}
	if i := slices.IndexFunc(x.all, func(e sharedPrompt) bool { return e.id == id }); i >= 0 {
		x.all[i].until = until(x.all[i].until)
	}
}

// Forget drops the prompts of a router.
func (x *SharedPredictions) Forget(router uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dropLocked(time.Now(), func(e *sharedPrompt) bool { return e.id.Router == router })
	x.countLocked()
}

// Own calls f with each prompt that this router has sent. f must not call x.
func (x *SharedPredictions) Own(now time.Time, f func(number, rank uint64, tokens int, fingerprints []uint32)) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for i := range x.all {
		if e := &x.all[i]; e.id.Router == 0 && e.until >= now.UnixNano() {
			f(e.id.Number, e.rank, e.tokens, e.fingerprints)
		}
	}
}

func (x *SharedPredictions) dropLocked(now time.Time, is func(*sharedPrompt) bool) {
	kept := x.all[:0]
	for i := range x.all {
		if !is(&x.all[i]) {
			kept = append(kept, x.all[i])
			continue
		}
		delete(x.ids, x.all[i].id)
		x.Known.endShared(now, &x.all[i].turn)
		if len(x.free) < maxFree {
			x.free = append(x.free, x.all[i].fingerprints)
		}
	}
	clear(x.all[len(kept):])
	x.all = kept
}

func (x *SharedPredictions) countLocked() {
	n := int32(0)
	for i := range x.all {
		if x.all[i].id.Router != 0 {
			n++
		}
	}
	x.foreign.Store(n)
}

// rankTokens is the leading tokens of a prompt that a rank will hold.
type rankTokens struct {
	rank   uint64
	tokens int
}

// find appends, for each rank, the longest beginning of a prompt that it is about to compute.
// own: prompts of this router count too.
func (x *SharedPredictions) find(dst []rankTokens, now int64, tokens int, fingerprints []uint32, own bool) []rankTokens {
	if len(fingerprints) == 0 {
		return dst
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	for i := range x.all {
		e := &x.all[i]
		if e.first != fingerprints[0] || e.until < now || (e.id.Router == 0 && !own) {
			continue
		}
		n := sharedTokens(tokens, fingerprints, e.tokens, e.fingerprints)
		if n == 0 {
			continue
		}
		if j := slices.IndexFunc(dst, func(r rankTokens) bool { return r.rank == e.rank }); j >= 0 {
			dst[j].tokens = max(dst[j].tokens, n)
		} else {
			dst = append(dst, rankTokens{e.rank, n})
		}
	}
	return dst
}

// sharedMatch is the overlap of ranks with a prompt by shared predictions.
type sharedMatch struct {
	fingerprints []uint32 // of the prompt, where known
	known        bool     // since the choice began
	ranks        []rankTokens
}

// of returns the prompt's fingerprints, which stay valid until the next choice.
func (m *sharedMatch) of(model string, p *Prompt) []uint32 {
	if !m.known {
		m.fingerprints, m.known = appendFingerprints(m.fingerprints[:0], model, p), true
	}
	return m.fingerprints
}

// overlap returns the predicted overlap of a rank, with the prompts of other routers.
func (m *sharedMatch) overlap(rank *worker.Rank, p *Prompt, predicted overlap) overlap {
	for _, e := range m.ranks {
		if e.rank == rank.IDHash() && e.tokens > predicted.tokens {
			return overlap{tokens: e.tokens, gpu: e.tokens, block: predicted.block}.usable(p)
		}
	}
	return predicted
}

// endShared tells the other routers of the end of a prediction.
func (f *Prediction) endShared() {
	if f.told != 0 {
		f.router.Shared.Done(time.Now(), PromptID{Number: f.told})
		f.router.Peers.Done(f.told)
		f.told = 0
	}
}
