package worker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// Load is the load of one rank: requests that this router and its peers (RouterLoad) have
// dispatched and not ended, and the rank's own reports, which count the requests of other
// clients too. Requests count from dispatch: a burst between two reports would otherwise see no
// load at all and pile up on one worker.
//
// Steps and reports take a lock for some 50 ns; a choice reads a LoadView without one.
type Load struct {
	own, peers counts        // requests of this router, and of all others
	routers    atomic.Int64  // see SetRouters
	claimed    atomic.Uint64 // float64 bits: until when claimTokens count
	// KV tokens for decode legs in flight, and for prompts fetched from KV tiers; part of own.used.
	reserved atomic.Int64
	// fetching counts the tokens that prompts without a first byte will fetch from KV tiers. No
	// rank reports them: a request that waits for room in the pool with next to nothing to
	// compute would be invisible, and would attract more.
	fetching atomic.Int64
	stepped  chan struct{} // capacity 1, one for a worker: a request began to answer or ended

	// The rank makes progress, for those waiting for it. They look now and then, and pieces of
	// answers say that they have come since. A piece reads one number that changes with each look,
	// and no clock.
	looks     atomic.Uint64
	shown     atomic.Uint64 // number of the last look that a piece of an answer came behind
	prefilled atomic.Int64  // see BegunPair

	mu        sync.Mutex
	backlog   policy.Backlog // guarded by mu; times are unix seconds
	speed     policy.Speed   // guarded by mu
	check     check          // guarded by mu
	word      peerWord       // guarded by mu
	published publishedLoad  // written under mu
}

// counts are those of a RouterLoad, written under Load.mu between published.begin and end.
type counts struct{ inFlight, waiting, pending, used, held, sent atomic.Int64 }

func (c *counts) add(d *RouterLoad) {
	c.inFlight.Add(d.InFlight)
	c.waiting.Add(d.Waiting)
	c.pending.Add(d.Pending)
	c.used.Add(d.Used)
	c.held.Add(d.Held)
	c.sent.Add(d.Sent)
}

// InFlight returns the requests dispatched and not ended.
func (l *Load) InFlight() int64 { return l.own.inFlight.Load() }

// Waiting returns the dispatched requests without a first byte.
func (l *Load) Waiting() int64 { return l.own.waiting.Load() }

// Pending returns the prompt tokens of dispatched requests without a first byte.
func (l *Load) Pending() int64 { return l.own.pending.Load() }

// Reserved returns the KV tokens for decode legs in flight, and for prompts fetched from KV
// tiers.
func (l *Load) Reserved() int64 { return l.reserved.Load() }

// Lease is one request's share of a rank's load. Each step takes effect once, in any order and
// number of calls, so that no exit path can leak load.
type Lease struct {
	load     *Load
	tokens   int64 // to prefill
	reserved int64 // reserved
	fetching int64 // from a KV tier, until the first byte; kept from then on
	held     int64
	streams  int64 // tokens, of a stream
	started  bool
	ended    bool
	watch    dispatched
}

// Work is one request as a rank's load counts it.
type Work struct {
	Uncached int  // prompt tokens to prefill
	Fetched  int  // prompt tokens from a KV tier: they take room in the pool and no time to prefill
	Prompt   int  // prompt tokens
	Output   int  // the most tokens that its answers may have; 0 is unknown
	Guessed  bool // Prompt is an estimate, of text or of a prompt with images
	Exact    bool // Uncached is by the rank's KV events
	Streams  bool // the first byte comes with the first token
}

// Holds is the most KV tokens that the request can hold.
func (w *Work) Holds() int64 {
	output := w.Output
	if output <= 0 {
		output = unknownAnswer
	}
	held := int64(max(w.Prompt, w.Uncached+w.Fetched, 0)) + int64(output)
	if w.Guessed {
		held += unknownPrompt
	}
	return min(held, countLimit)
}

// Begin counts a request with uncached prompt tokens to prefill. The lease
// belongs to the goroutine that serves the request.
func (l *Load) Begin(uncached int) Lease { return l.BeginWork(time.Now(), Work{Uncached: uncached}) }

// BeginWork is Begin for a request of which more is known.
func (l *Load) BeginWork(now time.Time, w Work) Lease {
	tokens, coming, held := int64(max(w.Uncached, 0)), int64(max(w.Fetched, 0)), w.Holds()
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.watch(now, &w)
	l.published.begin()
	l.own.add(&RouterLoad{InFlight: 1, Waiting: 1, Pending: tokens, Used: tokens, Held: held, Sent: tokens})
	l.fetching.Add(coming)
	l.backlog.Sent(seconds(now), float64(tokens))
	streams := l.published.prefill(seconds(now), tokens, w.Streams)
	l.published.store(&l.backlog)
	l.published.end()
	l.check.note(l.peaks())
	return Lease{load: l, tokens: tokens, fetching: coming, held: held, streams: streams, watch: at}
}

// BeginLeg counts the decode leg of a request, which needs room for so many tokens: the
// prompt's and the requested ones.
func (l *Load) BeginLeg(tokens int, w Work) Lease {
	kept, held := int64(max(tokens, 0)), w.Holds()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.published.begin()
	l.own.add(&RouterLoad{InFlight: 1, Waiting: 1, Used: kept, Held: held})
	l.reserved.Add(kept)
	l.published.end()
	l.check.note(l.peaks())
	return Lease{load: l, reserved: kept, held: held}
}

// FirstByte marks the prompt as prefilled.
func (l *Lease) FirstByte() {
	if l.load != nil && !l.started {
		l.FirstByteAt(time.Now())
	}
}

// FirstByteAt is FirstByte, now.
func (l *Lease) FirstByteAt(now time.Time) {
	if l.load == nil || l.started {
		return
	}
	l.started = true
	load := l.load
	load.mu.Lock()
	defer load.mu.Unlock()
	load.published.begin()
	load.own.waiting.Add(-1)
	load.own.pending.Add(-l.tokens)
	load.own.used.Add(l.fetching)
	load.published.streams.Add(-l.streams)
	load.fetching.Add(-l.fetching)
	load.reserved.Add(l.fetching)
	l.reserved, l.fetching = l.reserved+l.fetching, 0
	load.backlog.Begun(seconds(now), float64(l.tokens))
	load.published.store(&load.backlog)
	load.published.end()
	load.step()
}

// End gives the request's whole load back.
func (l *Lease) End() {
	if l.load == nil || l.ended {
		return
	}
	l.FirstByte()
	l.ended = true
	load := l.load
	load.mu.Lock()
	defer load.mu.Unlock()
	load.published.begin()
	load.own.inFlight.Add(-1)
	load.own.used.Add(-l.tokens - l.reserved)
	load.own.held.Add(-l.held)
	load.reserved.Add(-l.reserved)
	load.published.end()
	load.step()
}

// step asks the poller for a report of a rank that publishes none.
func (l *Load) step() {
	if l.published.polled.Load() {
		select {
		case l.stepped <- struct{}{}:
		default: // asked before, or no rank of a worker
		}
	}
}

// sum returns a count of all routers.
func sum(own, peers *atomic.Int64) int64 { return own.Load() + peers.Load() }

func (l *Load) inFlightAll() int64 { return sum(&l.own.inFlight, &l.peers.inFlight) }
func (l *Load) waitingAll() int64  { return sum(&l.own.waiting, &l.peers.waiting) }
func (l *Load) sentAll() int64     { return sum(&l.own.sent, &l.peers.sent) }

// used is the growth of the KV pool that requests in flight will cause.
func (l *Load) used() int64 { return sum(&l.own.used, &l.peers.used) }

func (l *Load) peaks() peaks {
	return peaks{l.inFlightAll(), sum(&l.own.pending, &l.peers.pending), sum(&l.own.held, &l.peers.held)}
}

// seconds is a time as policies count it.
func seconds(t time.Time) float64 { return float64(t.UnixNano()) * 1e-9 }

// RouterLoad is the load of one router at one rank. Routers send it to each other as a state and
// not as a change, so that a lost message is made good by the next.
type RouterLoad struct {
	InFlight int64 // requests dispatched and not ended
	Waiting  int64 // requests without a first byte
	Pending  int64 // prompt tokens that the rank must compute for Waiting
	Used     int64 // tokens of the KV pool that all of InFlight are expected to add
	Held     int64 // the most KV tokens that all of InFlight can hold
	// All tokens that were ever in Pending, also of requests that began between two messages.
	Sent int64
}

// Idle reports whether nothing is in flight.
func (s RouterLoad) Idle() bool {
	return s.InFlight == 0 && s.Waiting == 0 && s.Pending == 0 && s.Used == 0 && s.Held == 0
}

// Own returns this router's own load at the rank.
func (l *Load) Own() (s RouterLoad) {
	for range viewTries {
		before := l.published.version.Load()
		c := &l.own
		s = RouterLoad{
			InFlight: c.inFlight.Load(), Waiting: c.waiting.Load(), Pending: c.pending.Load(),
			Used: c.used.Load() + l.fetching.Load(), Held: c.held.Load(), Sent: c.sent.Load(),
		}
		if before&1 == 0 && before == l.published.version.Load() {
			break
		}
	}
	return s
}
