package routing

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// Expected are prompts that were sent, or are about to be, and that no event tells of yet. A router
// predicts its own prompts in the index; the router that chooses for all has to know those of the
// others too, or equal prompts that come to several routers at one instant are computed by as many
// workers.
//
// An entry ends shortly after its prompt's first byte, when each router has read the events that
// tell of it; or with its router.
type Expected struct {
	foreign atomic.Int32 // entries of other routers: a choice takes no lock while there are none

	mu   sync.RWMutex
	all  []expectation       // the oldest first; guarded by mu
	free [][]uint32          // marks of entries that ended, to be used again; guarded by mu
	has  map[Sender]struct{} // of all; guarded by mu
}

// Sender names a prompt: the router that sent it, 0 is this one, and its number there.
type Sender struct{ Router, Number uint64 }

type expectation struct {
	by     Sender
	rank   uint64 // Hash
	until  int64  // unix nanoseconds
	first  uint32 // of marks: most prompts differ there
	tokens int
	marks  []uint32
}

const (
	// mostExpected bounds the entries: a scan of all takes some 25 µs where they share a system
	// prompt.
	mostExpected = 512
	mostFree     = 64
	// A prompt that was chosen for counts for unsentFor unless its router says that it was sent,
	// and for expectedFor after that: the router that sent it says when its first byte has come.
	unsentFor   = time.Second
	expectedFor = time.Minute
)

// Expect notes a prompt that goes to the rank with that hash. It copies marks. sure says that it
// was sent.
func (x *Expected) Expect(now time.Time, by Sender, rank uint64, tokens int, marks []uint32, sure bool) {
	if len(marks) == 0 || len(marks) > MostMarks {
		return
	}
	until := now.Add(unsentFor).UnixNano()
	if sure {
		until = now.Add(expectedFor).UnixNano()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dropLocked(func(e *expectation) bool { return e.until < now.UnixNano() || e.by == by })
	if len(x.all) >= mostExpected {
		oldest := x.all[0].by
		x.dropLocked(func(e *expectation) bool { return e.by == oldest })
	}
	var kept []uint32
	if n := len(x.free); n > 0 {
		kept, x.free = x.free[n-1], x.free[:n-1]
	}
	kept = append(kept[:0], marks...)
	if x.has == nil {
		x.has = make(map[Sender]struct{}, mostExpected)
	}
	x.has[by] = struct{}{}
	x.all = append(x.all, expectation{by: by, rank: rank, until: until, first: marks[0], tokens: tokens, marks: kept})
	x.countLocked()
}

// Sent notes that a prompt was sent that was chosen for.
func (x *Expected) Sent(now time.Time, by Sender) {
	x.limit(by, func(int64) int64 { return now.Add(expectedFor).UnixNano() })
}

// Done notes that a prompt was computed, or that nothing comes of it.
func (x *Expected) Done(now time.Time, by Sender) {
	x.limit(by, func(until int64) int64 { return min(until, now.Add(recentFor).UnixNano()) })
}

func (x *Expected) limit(by Sender, until func(int64) int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.has[by]; !ok { // of most prompts that others tell of this router knows nothing
		return
	}
	if i := slices.IndexFunc(x.all, func(e expectation) bool { return e.by == by }); i >= 0 {
		x.all[i].until = until(x.all[i].until)
	}
}

// Forget drops the prompts of a router.
func (x *Expected) Forget(router uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dropLocked(func(e *expectation) bool { return e.by.Router == router })
	x.countLocked()
}

// Own calls f with each prompt that this router has sent. f must not call x.
func (x *Expected) Own(now time.Time, f func(number, rank uint64, tokens int, marks []uint32)) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for i := range x.all {
		if e := &x.all[i]; e.by.Router == 0 && e.until >= now.UnixNano() {
			f(e.by.Number, e.rank, e.tokens, e.marks)
		}
	}
}

func (x *Expected) dropLocked(is func(*expectation) bool) {
	kept := x.all[:0]
	for i := range x.all {
		if !is(&x.all[i]) {
			kept = append(kept, x.all[i])
			continue
		}
		delete(x.has, x.all[i].by)
		if len(x.free) < mostFree {
			x.free = append(x.free, x.all[i].marks)
		}
	}
	clear(x.all[len(kept):])
	x.all = kept
}

func (x *Expected) countLocked() {
	n := int32(0)
	for i := range x.all {
		if x.all[i].by.Router != 0 {
			n++
		}
	}
	x.foreign.Store(n)
}

// rankTokens is how much of a prompt a rank will have.
type rankTokens struct {
	rank   uint64
	tokens int
}

// find appends, for each rank, the longest beginning of a prompt that it is about to compute. Own
// says whether this router's prompts count.
func (x *Expected) find(dst []rankTokens, now int64, tokens int, marks []uint32, own bool) []rankTokens {
	if len(marks) == 0 {
		return dst
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	for i := range x.all {
		e := &x.all[i]
		if e.first != marks[0] || e.until < now || (e.by.Router == 0 && !own) {
			continue
		}
		n := common(tokens, marks, e.tokens, e.marks)
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

// marks returns the prompt's marks, which stay valid until the next choice with s.
func (r *Router) marks(s *Scratch, p *Prompt) []uint32 {
	if !s.marked {
		s.marks, s.marked = appendMarks(s.marks[:0], s.ranks[0].Worker.Info().Model(), p), true
	}
	return s.marks
}

// expect finds the ranks that are about to compute something of the prompt for other routers.
func (r *Router) expect(s *Scratch, p *Prompt, d *Decision) {
	if d.block > 0 && r.Expected.foreign.Load() > 0 {
		s.expects = r.Expected.find(s.expects[:0], s.nanos, len(p.Tokens), r.marks(s, p), false)
	}
}

// expected is what a rank will have, with the prompts of other routers.
func (s *Scratch) expected(rank *worker.Rank, p *Prompt, foreseen match) match {
	for _, e := range s.expects {
		if e.rank == rank.IDHash() && e.tokens > foreseen.tokens {
			return match{tokens: e.tokens, gpu: e.tokens, block: foreseen.block}.limited(p)
		}
	}
	return foreseen
}

// addExpected adds the ranks that are about to compute something of the prompt.
func (s *Scratch) addExpected(l *few) {
	for _, e := range s.expects {
		if rank := l.byHash[e.rank]; rank != nil {
			s.addFew(rank)
		}
	}
}

// tell lets the other routers know of a prompt that is sent, and returns the number to end that
// with; 0: there are none.
func (r *Router) tell(s *Scratch, p *Prompt, d *Decision, now time.Time) uint64 {
	if r.Others == nil || !r.Others.Together() {
		return 0
	}
	marks, number := r.marks(s, p), d.ask
	if number == 0 {
		number = r.Others.Tell(d.Rank.IDHash(), len(p.Tokens), marks)
	}
	r.Expected.Expect(now, Sender{Number: number}, d.Rank.IDHash(), len(p.Tokens), marks, true)
	return number
}

// done ends what tell began.
func (f *Flight) done(now time.Time) {
	if f.told != 0 {
		f.router.Expected.Done(now, Sender{Number: f.told})
		f.router.Others.Done(f.told)
		f.told = 0
	}
}
