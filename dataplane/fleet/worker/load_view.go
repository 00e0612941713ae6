package worker

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// LoadView is a rank's load as a choice sees it.
type LoadView struct {
	InFlight int64   // requests of all routers, and of other clients as of the last report
	Waiting  int64   // requests without a first token
	Pending  int64   // prompt tokens that are left to compute now
	Used     int64   // tokens of the KV pool that running requests hold
	Reserved int64   // tokens for own decode legs; part of Used until a report counts them
	Pool     int64   // tokens of the KV pool; 0 when unknown
	Most     int64   // requests that it runs at once; 0 when unknown
	Rate     float64 // prompt tokens that it computes a second; 0 when unknown
	Age      float64 // seconds since the last report; below 0: there was none
	Polled   bool    // the last report was asked for over HTTP
	Batch    Batch   // the prompts that it computes now, as far as routers know

	// Of a rank without reports, the requests of InFlight and the tokens of Pending that other
	// routers claim, and the routers that share the rank; else 0.
	Claimed, ClaimedTokens, Routers int64
}

// reportFor is how long a report counts, in seconds. Reports come once a second; the requests in
// the last report of a silent rank would count forever.
const reportFor = 5

// publishedLoad is the part of a Load that choices read: a few cache lines, written under
// Load.mu and read without a lock. A reader that saw two states tries again (a sequence lock).
type publishedLoad struct {
	version atomic.Uint64 // odd while it is being written

	// Policy.Backlog, as float64 bits; at is 0 before the first report.
	own, since, told, at atomic.Uint64
	rate                 atomic.Uint64 // float64 bits

	running, queue, queued, used, pool, most atomic.Int64  // of the last report
	ownFlight, ownBegun, ownUsed             atomic.Int64  // of all routers, when the report came
	streams                                  atomic.Int64  // tokens of streams without a first one
	batch, computed                          atomic.Uint64 // see prefill; float64 bits
	polled                                   atomic.Bool
	usedAside                                atomic.Bool // used is not believed
}

// setRate shows a speed, between begin and end.
func (s *publishedLoad) setRate(speed float64) { s.rate.Store(math.Float64bits(speed)) }

func (s *publishedLoad) begin() { s.version.Add(1) }
func (s *publishedLoad) end()   { s.version.Add(1) }

// store shows a backlog, between begin and end.
func (s *publishedLoad) store(b *policy.Backlog) {
	s.own.Store(math.Float64bits(b.Own))
	s.since.Store(math.Float64bits(b.Since))
	s.told.Store(math.Float64bits(b.Told))
	s.at.Store(math.Float64bits(b.At))
}

// viewTries bounds how often a reader tries again: writers take 20 ns, and the last try is off
// by one request at worst.
const viewTries = 8

// View returns the load as it is now.
func (l *Load) View(now time.Time) (v LoadView) {
	l.ViewInto(&v, now.UnixNano())
	return v
}

// ViewInto is View into memory of the caller's, at a time in unix nanoseconds: a choice reads the
// clock once for all ranks.
func (l *Load) ViewInto(v *LoadView, now int64) {
	s := &l.published
	for range viewTries {
		before := s.version.Load()
		l.read(v, float64(now)*1e-9)
		if before&1 == 0 && before == s.version.Load() {
			return
		}
	}
}

func (l *Load) read(v *LoadView, at float64) {
	s := &l.published
	float := func(f *atomic.Uint64) float64 { return math.Float64frombits(f.Load()) }
	flight, waiting := l.inFlightAll(), l.waitingAll()
	// Field by field: a literal is made on the stack and copied, which costs as much as reading.
	v.InFlight, v.Waiting, v.Used, v.Reserved, v.Rate = flight, waiting, l.used(), l.reserved.Load(), float(&s.rate)
	v.Pool, v.Most, v.Age, v.Polled = 0, 0, -1, false
	v.Claimed, v.ClaimedTokens, v.Routers = 0, 0, 0
	v.Batch = Batch{Streams: s.streams.Load(), Left: max(float(&s.computed)-at, 0)}
	if v.Batch.Streams > 0 || v.Batch.Left > 0 {
		v.Batch.Age = at - float(&s.batch)
	}
	b := policy.Backlog{Own: float(&s.own), Since: float(&s.since)}
	if reported := float(&s.at); reported != 0 {
		v.Age, v.Polled = max(at-reported, 0), s.polled.Load()
		v.Pool, v.Most = s.pool.Load(), s.most.Load()
		if v.Age < reportFor {
			if b.Told, b.At, b.Heard = float(&s.told), reported, v.Rate > 0; !b.Heard {
				// Tokens sent since would count until the next report, computed or not.
				b.Own = max(b.Own, float64(s.queued.Load()))
			}
			running := s.running.Load()
			begun := max(flight-waiting, running+flight-waiting-s.ownBegun.Load())
			v.InFlight = max(flight, running+s.queue.Load()+flight-s.ownFlight.Load())
			// An answer that is not streamed has its first byte at its end: the rank knows
			// earlier that the prompt is computed.
			v.Waiting = max(v.InFlight-begun, 0)
			if !s.usedAside.Load() {
				v.Used = max(v.Used-s.ownUsed.Load()+s.used.Load(), 0)
			}
		}
	}
	if l.peers.inFlight.Load() > 0 && !v.reports() {
		l.boundClaims(v, &b, at)
	}
	v.Used += l.fetching.Load()
	if v.Pending = int64(b.Tokens(at, v.Rate) + 0.5); v.Claimed > 0 {
		v.ClaimedTokens = max(v.Pending-l.own.pending.Load(), 0)
	}
}

// reports reports whether the last report counts.
func (v *LoadView) reports() bool { return v.Age >= 0 && v.Age < reportFor }

// Stale reports whether the last report is too old to count.
func (v *LoadView) Stale() bool { return v.Age >= reportFor }

// watch notes the state before a request is sent. The first byte of a request that must wait for
// room in the pool or in the batch is no evidence of the speed.
func (l *Load) watch(now time.Time, w *Work) dispatched {
	at := dispatched{at: now, exact: w.Exact}
	if w.Uncached < chunkOf(&l.speed)/sampleShare || w.Fetched > 0 {
		return at
	}
	var v LoadView
	l.read(&v, seconds(now))
	own := l.peaks()
	at.work, at.sent = own.pending, l.sentAll()
	if v.reports() {
		at.work = max(at.work, l.published.queued.Load())
	}
	at.counts = (v.Most == 0 || v.InFlight < v.Most) && (v.Pool == 0 || v.Used+int64(w.Prompt) < v.Pool)
	return at
}

// Look is a moment from which progress counts.
type Look struct {
	number uint64
	at     time.Time
}

// Look begins a time for workedSince and Queues.
func (l *Load) Look(now time.Time) Look { return Look{l.looks.Add(1), now} }

// workedSince reports whether a piece of an answer has come since a look.
func (l *Load) workedSince(look Look) bool { return l.shown.Load() >= look.number }

// Worked notes that a piece of a good answer has come.
func (l *Load) Worked() {
	n := l.looks.Load()
	for was := l.shown.Load(); was < n && !l.shown.CompareAndSwap(was, n); {
		was = l.shown.Load()
	}
}

// BegunPair notes that the answer to a prompt has begun which a prefill worker had computed at a
// time in unix nanoseconds.
func (l *Load) BegunPair(prefilled int64) {
	for was := l.prefilled.Load(); was < prefilled && !l.prefilled.CompareAndSwap(was, prefilled); {
		was = l.prefilled.Load()
	}
}

// Queues reports whether a decode rank goes on, by its answers or reports since a look, and may let
// a request wait in its queue whose prompt was computed at a time: it has no place in its batch, as
// far as it tells how many it has, and no request has begun that came later by more than slack.
// SGLang's queue behind the transfer is first come, first served.
func (l *Load) Queues(now time.Time, look Look, prefilled time.Time, slack time.Duration) bool {
	if l.prefilled.Load() > prefilled.Add(slack).UnixNano() {
		return false
	}
	v := l.View(now)
	if v.Most == 0 {
		return l.workedSince(look)
	}
	reported := v.Age >= 0 && v.Age < now.Sub(look.at).Seconds()
	return v.InFlight-v.Waiting >= v.Most && (reported || l.workedSince(look))
}

// Reporting reports whether the rank reports its load: its scheduler runs.
func (l *Load) Reporting(now time.Time) bool {
	v := l.View(now)
	return v.reports()
}
