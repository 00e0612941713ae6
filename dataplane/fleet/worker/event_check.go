package worker

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// EventFault is the reason for which a rank's KV events are set aside.
type EventFault uint32

const (
	// NoEventFault believes the events.
	NoEventFault EventFault = iota
	// EventsLost is for a hole in the history: the rank holds blocks of it that nothing tells of.
	EventsLost
	// EventsTellLess is for prompts that the rank keeps finding in its cache and no event told of.
	EventsTellLess
	// EventsTellMore is for prompts that events told of and the rank keeps computing.
	EventsTellMore
	// EventsUnreadable is for batches that cannot be read, hold mostly unknown kinds of event, or
	// are out of order.
	EventsUnreadable
	// EventsShared is for an address that another process names for its events, too.
	EventsShared
)

// String returns the fault as metrics show it, "" for none.
func (f EventFault) String() string {
	return [...]string{"", "lost", "less", "more", "unreadable", "shared"}[f]
}

// Why returns the fault in words.
func (f EventFault) Why() string {
	return [...]string{
		"", "some of them are lost for good, and its answers have not yet shown that the others tell all",
		"its answers keep reporting more cached tokens than its events told of",
		"its answers keep reporting fewer cached tokens than its events told of",
		"many of its event batches cannot be read, hold unknown kinds of event, or are out of order",
		"another worker names the same address for its events: give each one its own in --kv-events-config",
	}[f]
}

const (
	// checkedAnswers and checkedBatches are the windows, lessAnswers that of answers that found
	// more than the events told. With minFaults of them wrong, a lost page group or a few foreign
	// batches are no longer an explanation.
	checkedAnswers = 32
	lessAnswers    = 64
	checkedBatches = 64
	minFaults      = 6
	// leastDifference is the smallest one that counts, in tokens, unless two pages are more: no
	// choice depends on less, and engines differ by a page in the last one of a prompt.
	leastDifference = 32
	// One of lessPart answers must have found more than the events told. True events leave out
	// none.
	lessPart = 8
	// moreFaults of the answers, and one of morePart, must have found less than the events told.
	// An engine with more work than memory evicts pages before queued prompts find them: where more
	// than aheadShare of the pool was to be computed first, six in ten find less.
	moreFaults = 4
	morePart   = 8
	aheadShare = 16
	// evictedFaults and evictedPart are the same where the rank has removed as many pages between
	// choice and answer: true events of a busy pool look so now and then.
	evictedFaults = 12
	evictedPart   = 2
	// One of unreadablePart batches must be unreadable. Engines send none.
	unreadablePart = 3
	// healed answers end a fault, at most an eighth of the latest of them wrong, or as many
	// batches, at most one of the latest of them unreadable. Answers come from where the tree sends
	// prompts, so that half-true events look right meanwhile: after each further fault it takes
	// eight times as many, up to 2^maxBackOff times.
	healed = 128
	// The tree stands beside the events of a new process, and of one that an answer has found to
	// tell less than it holds, until rightAnswers have met them, newAnswers came, of other prompts
	// only or without cached tokens, or for newFor: a choice costs some µs more. Events with wrong
	// hashes or parents are right as long as prompts are short: with 8 right answers conversations
	// found 0.95 where 0.98 were to be found.
	rightAnswers = 64
	newAnswers   = 256
	newFor       = 10 * time.Minute
	backOff      = 3 // a power of two
	maxBackOff   = 4
	// maxRestarts is how often the process may seem to be another one while restartFor batches
	// come. A process that is has findings of its own.
	maxRestarts = 2
	restartFor  = 256
)

// EventCheck compares the overlaps that a rank's KV events told of with the cached tokens of its
// answers, and counts the batches that cannot be read. A rank whose events are wrong again and
// again is known by its answers until the events, which are still read, are right again. The
// zero value believes.
//
// Writers take a lock for some 10 ns after an answer or a batch; a choice reads without one.
type EventCheck struct {
	fault   atomic.Uint32
	shared  atomic.Int64 // unix nanoseconds since when, see [Rank.ShareEvents]; 0: they are not
	times   atomic.Uint64
	removed atomic.Int64 // tokens of pages that live events told are gone
	answers atomic.Int32 // while the events are new; newAnswers: they are no more

	mu            sync.Mutex
	since         time.Time // of the fault; guarded by mu, as is all below
	less, more    shiftRegister
	evicted       shiftRegister // of more, those that removals since the choice may explain
	judged, right int           // answers since the last change
	falls         int           // faults of events that were believed

	unreadable        shiftRegister
	restarts          int // for each batch, one in restartFor of a restart is forgotten
	batches, readable int // since the last change
}

// shiftRegister has the last 64 findings, the latest in bit 0.
type shiftRegister uint64

func (r *shiftRegister) push(found bool) {
	if *r <<= 1; found {
		*r |= 1
	}
}

// last returns how many of the last n findings are set, n at most 64.
func (r shiftRegister) last(n int) int { return bits.OnesCount64(uint64(r) << (64 - n)) }

// Fault returns why the events are set aside.
func (c *EventCheck) Fault() EventFault {
	if c.shared.Load() != 0 {
		return EventsShared
	}
	return c.found()
}

// found returns the fault that answers and batches have shown.
func (c *EventCheck) found() EventFault { return EventFault(c.fault.Load()) }

// Credited reports whether the blocks that the events told of count in a choice, alone or beside
// the answers. Blocks that no event told of make no other block wrong.
func (c *EventCheck) Credited() bool { return c.Fault() <= EventsTellLess }

// Times returns how often the events were set aside.
func (c *EventCheck) Times() uint64 { return c.times.Load() }

// New reports whether answers have yet to show that the events are right: the tree stands beside
// them, and knows the prompts that they may leave out. answered says that there were some.
func (c *EventCheck) New() (is, answered bool) {
	n := c.answers.Load()
	return n < newAnswers, n > 0
}

// Answered notes an answer.
func (c *EventCheck) Answered() {
	if c.answers.Load() < newAnswers {
		c.answers.Add(1)
	}
}

func (c *EventCheck) known() { c.answers.Store(newAnswers) }

// RemovedPages notes pages of so many tokens that a live event told are gone.
func (c *EventCheck) RemovedPages(tokens int) { c.removed.Add(int64(tokens)) }

// Removed returns the tokens of all such pages.
func (c *EventCheck) Removed() int64 { return c.removed.Load() }

// Since returns when the events were set aside.
func (c *EventCheck) Since() time.Time {
	if at := c.shared.Load(); at != 0 {
		return time.Unix(0, at)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since
}

// LostEvents notes a hole in the history of a rank's events. Answers, or WholeHistory, end it.
func (r *Rank) LostEvents(now time.Time) {
	c := &r.Events
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.found() == NoEventFault {
		c.setLocked(EventsLost, now)
		r.Trust.forgetOutcomes()
	}
}

// ShareEvents notes whether the rank's events come from an address that another process names, too.
// Events do not name their process.
func (r *Rank) ShareEvents(now time.Time, shared bool) {
	c := &r.Events
	if shared == (c.shared.Load() != 0) {
		return
	}
	if c.shared.Store(0); shared {
		c.shared.Store(max(now.UnixNano(), 1))
		c.times.Add(1)
		r.Load.forgetPool()
	}
	r.Trust.forgetOutcomes()
}

// WholeHistory notes that the events are known from the first one on.
func (r *Rank) WholeHistory() {
	c := &r.Events
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.found() == EventsLost {
		c.setLocked(NoEventFault, time.Time{})
		r.Trust.forgetOutcomes()
	}
}

// forget starts over: the rank's process is another one.
func (c *EventCheck) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.falls = 0
	c.answers.Store(0)
	c.setLocked(NoEventFault, time.Time{})
}

// EventClaim is the overlap of a prompt when its rank was chosen, beside the cached tokens that
// the answer reports.
type EventClaim struct {
	Told   int // prompt tokens that the rank holds by its events
	Expect int // by its events, or by requests that were in flight
	Cached int // as reported
	Since  int // by its events when the answer had ended; needed where FoundMore
	Page   int // tokens of a page
	// Ahead are the tokens that the rank had to compute first, Pool those of its pool.
	Ahead, Pool int64
	Storage     bool // as in Info
	Removed     int  // tokens of pages that the rank has removed since the choice
}

// differs reports whether one overlap is more than another one by so much that it counts.
func (a *EventClaim) differs(more, less int) bool {
	return more-less >= a.least() && float64(less) < hitShare*float64(more)
}

func (a *EventClaim) least() int { return max(2*a.Page, leastDifference) }

// FoundMore reports whether the answer found more than was expected.
func (a *EventClaim) FoundMore() bool { return a.differs(a.Cached, a.Expect) }

// CompareEvents takes an answer to a prompt with exact overlap.
func (r *Rank) CompareEvents(now time.Time, a EventClaim) {
	if r.doubt.Load() != 0 {
		return
	}
	c := &r.Events
	less, more := a.FoundMore(), a.differs(a.Told, a.Cached)
	switch {
	case max(a.Told, a.Cached) < a.least(): // nothing was to be known
		return
	case !less && a.differs(a.Cached, a.Told): // a request in flight had it, and no event tells
		return
	case less && !a.differs(a.Cached, a.Since): // other clients had it computed meanwhile
		return
	case less && (a.Storage || !r.exact.Load()): // a store had it, or the history is unknown
		return
	case more && aheadShare*a.Ahead > a.Pool: // it may have been evicted since
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.less.push(less)
	c.more.push(more)
	c.evicted.push(more && a.Removed >= a.Told-a.Cached)
	if less && c.found() == NoEventFault {
		c.right = 0
		c.answers.Store(1) // as new: removals may hide stored pages
	}
	if c.judged++; !less && !more {
		if c.right++; c.right >= rightAnswers && c.found() == NoEventFault {
			c.known()
		}
	}
	c.judgeLocked(r, now)
}

// ReadBatch takes an event batch.
func (r *Rank) ReadBatch(now time.Time, readable bool) { r.addBatch(now, !readable, false) }

// OtherProcess takes a batch that only another process would send: its number goes back, or a
// replay contradicts it. Where that is so, the findings end with the process.
func (r *Rank) OtherProcess(now time.Time) { r.addBatch(now, true, true) }

func (r *Rank) addBatch(now time.Time, unreadable, restart bool) {
	c := &r.Events
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unreadable.push(unreadable)
	c.restarts = max(c.restarts-1, 0)
	if restart {
		c.restarts += restartFor
		c.readable = 0
	}
	if c.batches++; !unreadable {
		c.readable++
	}
	c.judgeLocked(r, now)
}

// judgeLocked sets the events aside or ends that.
func (c *EventCheck) judgeLocked(r *Rank, now time.Time) {
	was, fault := c.found(), c.foundLocked()
	switch {
	case fault > was:
	case was != NoEventFault && c.healedLocked(was):
		fault = NoEventFault
	default:
		return
	}
	c.setLocked(fault, now)
	if fault != NoEventFault {
		r.Load.forgetPool()
	}
	r.Trust.forgetOutcomes() // overlaps are known from something else from now on
}

// foundLocked returns the worst fault of the windows.
func (c *EventCheck) foundLocked() EventFault {
	answers, batches := min(c.judged, checkedAnswers), min(c.batches, checkedBatches)
	share := func(n, of, part int) bool { return n*part >= of }
	less, more, unreadable := c.less.last(lessAnswers), c.more.last(checkedAnswers), c.unreadable.last(checkedBatches)
	evicted := c.evicted.last(checkedAnswers)
	switch {
	case c.restarts > maxRestarts*restartFor,
		unreadable >= minFaults && share(unreadable, batches, unreadablePart):
		return EventsUnreadable
	case more-evicted >= moreFaults && share(more-evicted, answers, morePart),
		more >= evictedFaults && share(more, answers, evictedPart):
		return EventsTellMore
	case less >= minFaults && share(less, min(c.judged, lessAnswers), lessPart):
		return EventsTellLess
	}
	return NoEventFault
}

// healedLocked reports whether the events are right again.
func (c *EventCheck) healedLocked(was EventFault) bool {
	again := min(backOff*(c.falls-1), maxBackOff)
	switch {
	case was == EventsUnreadable && c.readable < healed<<again, c.unreadable.last(checkedBatches) > 1:
		return false
	case was != EventsUnreadable && c.right < healed<<again:
		return false
	}
	return 8*(c.less|c.more).last(checkedAnswers) <= min(c.judged, checkedAnswers)
}

// setLocked begins or ends a fault, with windows of its own.
func (c *EventCheck) setLocked(fault EventFault, now time.Time) {
	if fault != NoEventFault {
		c.times.Add(1)
		if c.found() == NoEventFault {
			c.falls++
		}
	}
	c.since, c.less, c.more, c.evicted, c.judged, c.right = now, 0, 0, 0, 0, 0
	c.unreadable, c.restarts, c.batches, c.readable = 0, 0, 0, 0
	c.fault.Store(uint32(fault))
}
