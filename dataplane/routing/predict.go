package routing

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/radix"
)

// Flight is a prompt that was sent to a rank, and a prediction in the index
// for as long as the rank's events may not tell of it yet:
//
//   - From its dispatch on, its whole pages are predicted. Events tell of them
//     only after the prefill batch, and until then a burst of prompts with one
//     prefix would be spread over ranks that each compute it again.
//   - From the first byte of its answer on they are settled: the engine does not
//     evict what a running request uses.
//   - When the answer has ended, its pages are settled too, and all of them for
//     recentFor longer. The engine publishes them in the scheduler step after
//     the answer (measured on a real engine: within 1.5 ms of the answer's last
//     byte, 80 ms on a machine at ten times its load), so a client that sends
//     its next turn at once is faster than the events.
//
// A Flight belongs to whoever dispatched it until Land or Ended.
type Flight struct {
	prediction radix.Prediction
	rank       *worker.Rank
	block      int      // tokens a block
	tail       []uint32 // the prompt's tokens behind its whole blocks, and then the answer's
	told       uint64   // number by which other routers may know of it; 0: none does
	router     *Router

	since      time.Time // of the dispatch, then of the answer's end; guarded by flights.mu, as is all below
	in         *line     // where it is listed; nil when it was given up
	prev, next *Flight
}

const (
	// What ended longer than recentFor ago is the events' word alone.
	recentFor = 100 * time.Millisecond
	// recentAnswer bounds the generated tokens that are predicted.
	recentAnswer = 4096
	// Predictions that nobody ends are given up: a prompt waits no longer than
	// flightFor for its prefill, and more than maxFlights prompts are in no
	// engine's queue that a burst is worth being kept together for. The same
	// number of ended answers are those of recentFor up to 40,000 a second.
	flightFor  = 10 * time.Minute
	maxFlights = 4096
)

// flights are the predictions that stand.
type flights struct {
	due atomic.Int64 // unix nanoseconds when the oldest answer is to be forgotten

	mu    sync.Mutex             // index locks may be taken under it
	aloft line                   // by dispatch, the oldest first; guarded by mu, as is all below
	ended line                   // by end
	seats map[*worker.Rank]*seat // of all ranks that have one
	snap  *worker.Snapshot       // that ranks were last compared with

	pool sync.Pool
}

// seat is a rank's id for predictions in the index. It has one of its own: the
// ids of its events come with the first event, and there may be several.
type seat struct {
	id      radix.Worker
	flights int  // listed
	gone    bool // the rank is no more: the last flight takes the seat with it
}

// Dispatch tells the router that a decision is carried out, and counted as load. Land or Ended must
// follow. s and p are those that the decision was made with.
func (r *Router) Dispatch(s *Scratch, p *Prompt, d *Decision) *Flight {
	if d.ask != 0 {
		r.Others.Sent(d.ask)
	}
	if d.Fetch.Remote > 0 && r.Hints != nil {
		r.hint(p, d)
	}
	r.expectKeyed(p, d)
	if d.block == 0 || d.Rank.Worker.Info().NoCache {
		return nil // nothing that events could tell of
	}
	f, ok := r.flights.pool.Get().(*Flight)
	if !ok {
		f = &Flight{}
	}
	whole := len(p.Tokens) / d.block * d.block
	f.rank, f.block, f.since, f.router = d.Rank, d.block, time.Now(), r
	f.tail = append(f.tail[:0], p.Tokens[whole:]...)
	r.index.Predict(&f.prediction, r.admit(f), d.scope, s.hashAll(r.index, p, d.block))
	f.told = r.tell(s, p, d, f.since)
	if r.Approx != nil && d.Source == Events {
		r.key(s, p, d.Rank)
		d.sent.keyed = true
	}
	return f
}

// expectKeyed tells the rank's event stream of a prompt with an extra_key, of which no event tells.
func (r *Router) expectKeyed(p *Prompt, d *Decision) {
	block := pageSize(d.Rank.Worker.Info())
	if p.ExtraKey == "" || !p.Exact || p.Opaque || block == 0 {
		return
	}
	hashes := r.index.AppendHashes(nil, p.Tokens[:len(p.Tokens)/block*block], block)
	blocks := make([]uint64, len(hashes))
	for i, h := range hashes {
		blocks[i] = uint64(h)
	}
	d.Rank.ExtraKeys.End(d.sent.extra)
	d.sent.extra = d.Rank.ExtraKeys.Expect(blocks)
}

// Prefilled tells that the prompt's answer has begun. A nil Flight is ignored.
func (f *Flight) Prefilled() {
	if f != nil {
		f.prediction.Settle()
		f.done(time.Now())
	}
}

// Land tells that nothing came of a flight: its rank failed, or was told to
// stop. f must not be used afterwards; nil is ignored.
func (r *Router) Land(f *Flight) {
	if f == nil {
		return
	}
	f.done(time.Now())
	r.flights.mu.Lock()
	r.giveUpLocked(f)
	r.flights.mu.Unlock()
	r.flights.pool.Put(f)
}

// Ended tells that the rank has answered, with the generated ids where they are
// known. It keeps no reference to them. f must not be used afterwards; nil is
// ignored.
//
// The worker has cached the first floor((n+m-1)/page) pages of a prompt of n
// tokens and its answer of m: the last token generated is not computed.
func (r *Router) Ended(s *Scratch, f *Flight, generated []uint32, now time.Time) {
	if f == nil {
		return
	}
	f.prediction.Settle()
	f.done(now)
	if m := min(len(generated), recentAnswer); m > 0 {
		f.tail = append(f.tail, generated[:m-1]...)
		s.answer = r.index.AppendHashes(s.answer[:0], f.tail, f.block)
		f.prediction.Extend(s.answer)
	}
	r.flights.mu.Lock()
	defer r.flights.mu.Unlock()
	if f.in == nil { // given up before
		r.giveUpLocked(f)
		r.flights.pool.Put(f)
		return
	}
	f.in.remove(f)
	f.since = now
	r.flights.ended.push(f)
	r.forgetLocked(now)
}

// expire forgets what has ended recentFor ago.
func (r *Router) expire(now time.Time) {
	if now.UnixNano() < r.flights.due.Load() {
		return
	}
	if r.flights.mu.TryLock() { // else somebody is at it, or something has just been added
		r.forgetLocked(now)
		r.flights.mu.Unlock()
	}
}

// forgetLocked forgets answers that ended too long ago or are too many.
func (r *Router) forgetLocked(now time.Time) {
	line, due := &r.flights.ended, int64(math.MaxInt64)
	for f := line.first; f != nil; f = line.first {
		if now.Sub(f.since) < recentFor && line.n <= maxFlights {
			due = f.since.Add(recentFor).UnixNano()
			break
		}
		r.giveUpLocked(f)
		r.flights.pool.Put(f)
	}
	r.flights.due.Store(due)
}

// distrust forgets the answers of workers that went down since they gave them.
func (r *Router) distrust() {
	r.flights.mu.Lock()
	defer r.flights.mu.Unlock()
	for f := r.flights.ended.first; f != nil; {
		next := f.next
		if f.rank.Worker.Since().After(f.since) {
			r.giveUpLocked(f)
			r.flights.pool.Put(f)
		}
		f = next
	}
}

// giveUpLocked takes a flight's prediction back. An owner who is still to land
// it may do so.
func (r *Router) giveUpLocked(f *Flight) {
	f.prediction.Forget()
	if f.in == nil {
		return
	}
	f.in.remove(f)
	at := r.flights.seats[f.rank]
	if at.flights--; at.flights == 0 && at.gone {
		r.unseatLocked(f.rank)
	}
	f.rank = nil
}

// admit lists a flight, and returns the id that stands for its rank.
func (r *Router) admit(f *Flight) radix.Worker {
	fs := &r.flights
	fs.mu.Lock()
	defer fs.mu.Unlock()
	r.compareLocked()
	at := fs.seats[f.rank]
	if at == nil {
		at = &seat{id: r.index.AddWorker()}
		if fs.seats == nil {
			fs.seats = make(map[*worker.Rank]*seat)
		}
		fs.seats[f.rank] = at
		f.rank.SetPredictionID(uint32(at.id) + 1)
	}
	at.flights++
	fs.aloft.push(f)
	for old := fs.aloft.first; fs.aloft.n > maxFlights || f.since.Sub(old.since) > flightFor; old = fs.aloft.first {
		r.giveUpLocked(old)
	}
	return at.id
}

// compareLocked finds the seats of ranks that are no more, when the set of
// workers has changed.
func (r *Router) compareLocked() {
	fs, snap := &r.flights, r.registry.Snapshot()
	if snap == fs.snap {
		return
	}
	fs.snap = snap
	for rank, at := range fs.seats {
		if at.gone = !slices.Contains(snap.Ranks, rank); at.gone && at.flights == 0 {
			r.unseatLocked(rank)
		}
	}
}

// unseatLocked gives back a rank's id, of which nothing is predicted: it may be
// another rank's next.
func (r *Router) unseatLocked(rank *worker.Rank) {
	rank.SetPredictionID(0)
	r.index.RemoveWorker(r.flights.seats[rank].id)
	delete(r.flights.seats, rank)
}

// line is a list of flights. It is theirs where they have a place in it.
type line struct {
	first, last *Flight
	n           int
}

func (l *line) push(f *Flight) {
	f.in, f.prev, f.next = l, l.last, nil
	if l.last == nil {
		l.first = f
	} else {
		l.last.next = f
	}
	l.last = f
	l.n++
}

func (l *line) remove(f *Flight) {
	if f.prev == nil {
		l.first = f.next
	} else {
		f.prev.next = f.next
	}
	if f.next == nil {
		l.last = f.prev
	} else {
		f.next.prev = f.prev
	}
	f.in, f.prev, f.next = nil, nil, nil
	l.n--
}
