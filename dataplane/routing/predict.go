package routing

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/radix"
)

// Prediction is the blocks that a request in flight is about to compute at its rank. It stands
// in the index while the rank's events may not tell of them yet:
//
//   - From dispatch on, the prompt's whole pages are predicted. Events tell of them only after
//     the prefill batch; until then a burst of prompts with one prefix would spread over ranks
//     that each compute it again.
//   - From the first byte of the answer on they are settled: the engine does not evict pages of
//     a running request.
//   - When the answer has ended, its pages are settled too, and all of them stand until the rank's
//     events come, or a check of them: an idle engine publishes them in the scheduler step after the
//     answer (measured on a real engine: within 1.5 ms of its last byte, 80 ms on a machine at ten
//     times its load), and one that decodes for others with its 40th step or the next prefill batch,
//     a second later. A client that sends its next turn at once is faster.
//
// A Prediction belongs to the caller of Dispatch until Withdraw or Finish.
type Prediction struct {
	blocks radix.Prediction
	rank   *worker.Rank
	block  int      // tokens in a block
	tail   []uint32 // tokens of the prompt behind its whole blocks, then of the answer
	told   uint64   // number of the prompt at other routers; 0: they do not know of it
	router *Router
	other  PromptID // of another router; 0: of this one

	// Of dispatch, then of the answer's end; guarded by inFlight.mu, as is all below.
	since      time.Time
	in         *list // nil when it was removed
	prev, next *Prediction
}

const (
	// endedFor is the least time of predictions of ended answers: an event may have been under way.
	endedFor = 100 * time.Millisecond
	// endedMost bounds them where no event comes: quiet streams are checked every 5 s.
	endedMost = 15 * time.Second
	// maxAnswer bounds the predicted tokens of an answer.
	maxAnswer = 4096
	// dispatchedFor and maxPredictions end predictions that no caller ends: no prompt waits
	// longer for its prefill, and no engine queues more prompts: for each rank that has any, the
	// list has room for so many. Ended answers reach maxPredictions at 40,000 per second.
	dispatchedFor  = 10 * time.Minute
	maxPredictions = 4096
)

// inFlight has the predictions that stand.
type inFlight struct {
	registry *worker.Registry
	index    *radix.Index
	due      atomic.Int64 // unix nanoseconds when an ended answer may expire

	dropped atomic.Int64 // unix nanoseconds of the last dropStale

	mu         sync.Mutex               // index locks are taken under it
	dispatched list                     // the oldest first; guarded by mu, as is all below
	shared     list                     // of other routers, the oldest first
	ended      list                     // by end
	others     map[PromptID]*Prediction // of other routers, ended ones included
	chain      []radix.Hash

	shares atomic.Int64 // predictions of other routers
	pool   sync.Pool
}

// new returns a prediction of a decision's prompt, not listed yet.
func (t *inFlight) new(r *Router, p *Prompt, d *Decision, now time.Time) *Prediction {
	f := t.take()
	whole := len(p.Tokens) / d.block * d.block
	f.rank, f.block, f.since, f.router = d.Rank, d.block, now, r
	f.tail = append(f.tail[:0], p.Tokens[whole:]...)
	return f
}

// take returns a prediction of nothing.
func (t *inFlight) take() *Prediction {
	if f, ok := t.pool.Get().(*Prediction); ok {
		return f
	}
	return &Prediction{}
}

// Prefilled notes the first byte of the answer. A nil Prediction is ignored.
func (f *Prediction) Prefilled() {
	if f != nil {
		f.blocks.Confirm()
		f.endShared()
	}
}

// withdraw removes the prediction of a request without an answer.
func (t *inFlight) withdraw(f *Prediction) {
	t.mu.Lock()
	t.removeLocked(f)
	t.mu.Unlock()
	t.pool.Put(f)
}

// finish keeps the prediction of an answered request until events come, with the generated ids.
//
// The worker has cached the first floor((n+m-1)/page) pages of a prompt of n tokens and its
// answer of m: it does not compute the last generated token.
func (t *inFlight) finish(s *Scratch, f *Prediction, generated []uint32, now time.Time) {
	if m := min(len(generated), maxAnswer); m > 0 {
		f.tail = append(f.tail, generated[:m-1]...)
		s.answer = t.index.AppendHashes(s.answer[:0], f.tail, f.block)
		f.blocks.Extend(s.answer)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.in == nil { // removed before
		t.removeLocked(f)
		t.pool.Put(f)
		return
	}
	t.endLocked(f, now)
}

// endLocked keeps a prediction until events come.
func (t *inFlight) endLocked(f *Prediction, now time.Time) {
	f.in.remove(f)
	f.since = now
	t.ended.push(f)
	t.expireLocked(now)
}

// expire removes the predictions of ended answers that events have told of.
func (t *inFlight) expire(now time.Time) {
	if now.UnixNano() < t.due.Load() {
		return
	}
	if t.mu.TryLock() { // else another choice expires them, or one was just added
		t.expireLocked(now)
		t.mu.Unlock()
	}
}

func (t *inFlight) expireLocked(now time.Time) {
	due := int64(math.MaxInt64)
	for f := t.shared.first; f != nil; f = t.shared.first {
		if now.Sub(f.since) <= sentFor {
			due = f.since.Add(sentFor).UnixNano()
			break
		}
		t.dropLocked(f)
	}
	for f := t.ended.first; f != nil; {
		next, age := f.next, now.Sub(f.since)
		switch full := t.ended.n > maxPredictions; {
		case age < endedFor && !full: // as all that ended later
			due, next = min(due, f.since.Add(endedFor).UnixNano()), nil
		case !full && age < endedMost && f.other == (PromptID{}) && f.rank.Trust.Silence(now) >= age:
			due = min(due, now.Add(endedFor).UnixNano())
		default:
			t.dropLocked(f)
		}
		f = next
	}
	t.due.Store(due)
}

// dropStale removes the predictions of workers that went down since their answers.
func (t *inFlight) dropStale() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropped.Store(time.Now().UnixNano())
	for f := t.ended.first; f != nil; {
		next := f.next
		if f.rank.Worker.Since().After(f.since) {
			t.dropLocked(f)
		}
		f = next
	}
}

// dropLocked ends a prediction without an owner.
func (t *inFlight) dropLocked(f *Prediction) {
	if f.other != (PromptID{}) {
		delete(t.others, f.other)
		t.shares.Store(int64(len(t.others)))
		f.other = PromptID{}
	}
	t.removeLocked(f)
	t.pool.Put(f)
}

// removeLocked takes a prediction out of the index. Its owner may still end it.
func (t *inFlight) removeLocked(f *Prediction) {
	f.blocks.Forget()
	if f.in == nil {
		return
	}
	f.in.remove(f)
	f.rank = nil // not before: it keeps the rank's number from another one
}

// add lists a prediction.
func (t *inFlight) add(f *Prediction) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dispatched.push(f)
	most := maxPredictions * max(len(t.registry.Snapshot().Ranks), 1)
	for old := t.dispatched.first; t.dispatched.n > most || f.since.Sub(old.since) > dispatchedFor; old = t.dispatched.first {
		t.removeLocked(old)
	}
}

// list is a linked list of predictions.
type list struct {
	first, last *Prediction
	n           int
}

func (l *list) push(f *Prediction) {
	f.in, f.prev, f.next = l, l.last, nil
	if l.last == nil {
		l.first = f
	} else {
		l.last.next = f
	}
	l.last = f
	l.n++
}

func (l *list) remove(f *Prediction) {
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
