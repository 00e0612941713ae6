package worker

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// Report is a rank's report of its load. Missing counts are 0.
type Report struct {
	Running int64 // requests in its batch
	Waiting int64 // requests in its queue
	Queued  int64 // prompt tokens that it must compute for Waiting
	Used    int64 // tokens of its KV pool that running requests hold
	Wanted  int64 // of a decode rank: Used, and the first pages of requests that wait for them
	Pool    int64 // tokens of its KV pool
	Most    int64 // requests that it runs at once

	Prefilled int64         // prompt tokens computed since its start
	Busy      time.Duration // spent on them
	Polled    bool          // asked for over HTTP, not published
}

// rateChunks is how many chunks of prefill a rank must have computed before its speed alone
// counts: the first spans may be of short prompts on a busy machine, and a rank that looks slow by
// them gets no prompt to disprove it. Until then a lower speed than that of similar ranks is mixed
// with theirs, by the tokens computed. No speed at all would let prompts of a cold fleet count
// wholly until their first token, and equal ones give a slow worker four times as many prompts
// before it is known.
const rateChunks = 2

// countLimit bounds a count of a report: sums of two still fit.
const countLimit = 1 << 40

// usualChunk is the chunk of a prefill where a worker does not say: SGLang's on large GPUs.
const usualChunk = 8192

// setChunk sets the tokens of a full prefill batch; 0 is unknown. Numbers of tokens that prove a
// speed are shares of it.
func (l *Load) setChunk(tokens int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.speed.Chunk = tokens
}

// chunkOf returns the tokens of a full prefill batch.
func chunkOf(s *policy.Speed) int { return cmp.Or(max(s.Chunk, 0), usualChunk) }

// Report takes a report made now. An impossible count counts as nothing, and a field that
// contradicts the router's account is set aside (SetAside).
func (l *Load) Report(now time.Time, r Report) {
	for _, n := range [...]*int64{&r.Running, &r.Waiting, &r.Queued, &r.Used, &r.Wanted, &r.Pool, &r.Most, &r.Prefilled} {
		*n = min(max(*n, 0), countLimit)
	}
	r.Used = max(r.Used, r.Wanted)
	l.mu.Lock()
	defer l.mu.Unlock()
	at := seconds(now)
	if l.check.speed.why != "" { // the estimate would keep a wrong speed for minutes
		l.speed.Restart()
	}
	l.speed.Observe(float64(r.Prefilled), r.Busy.Seconds())
	if rate := l.speed.Rate(); rate > 0 {
		l.check.speed.claimed, l.check.speed.proved = rate, min(float64(r.Prefilled)/float64(rateChunks*chunkOf(&l.speed)), 1)
	}
	l.check.pool.reported, l.check.used.told = r.Pool, r.Used
	r.Pool = l.check.pool.believed(r.Pool)
	l.check.checkUsed(now, &r, l.peaks())
	l.backlog.Reported(at, float64(r.Queued), 0)
	s := &l.published
	s.begin()
	l.reportOnPeers(now, &r)
	s.noQueue(&r, at)
	s.running.Store(r.Running)
	s.queue.Store(r.Waiting)
	s.queued.Store(r.Queued)
	s.used.Store(r.Used)
	s.usedAside.Store(l.check.used.field.aside)
	s.pool.Store(r.Pool)
	s.most.Store(r.Most)
	s.polled.Store(r.Polled)
	// The report includes these requests: later changes are added to it.
	s.ownFlight.Store(l.inFlightAll())
	s.ownBegun.Store(l.inFlightAll() - l.waitingAll())
	s.ownUsed.Store(l.used())
	l.published.setRate(l.check.speed.believed(now))
	s.store(&l.backlog)
	s.end()
}

// CachedPages notes the content of the rank's pool by its events.
func (l *Load) CachedPages(now time.Time, r PoolContent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.check.checkPool(now, r)
	l.publishPoolLocked()
}

// forgetPool drops the pool's size as events told it, once the events are set aside.
func (l *Load) forgetPool() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.check.pool.forget(l.check.pool.reported)
	l.publishPoolLocked()
}

func (l *Load) publishPoolLocked() {
	if believed := l.check.pool.believed(l.check.pool.reported); believed != l.published.pool.Load() {
		l.published.begin()
		l.published.pool.Store(believed)
		l.published.end()
	}
}

// Forget drops the rank's reports: its process is gone. Requests in flight there are still to
// end.
func (l *Load) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.speed = policy.Speed{Chunk: l.speed.Chunk}
	l.check.forget()
	l.word.since = 0 // its counters begin anew
	l.backlog.Heard, l.backlog.Told, l.backlog.At = false, 0, 0
	s := &l.published
	s.begin()
	for _, v := range [...]*atomic.Int64{&s.running, &s.queue, &s.queued, &s.used, &s.pool, &s.most} {
		v.Store(0)
	}
	s.usedAside.Store(false)
	s.rate.Store(0)
	s.computed.Store(0)
	s.store(&l.backlog)
	s.end()
}

// setSimilarSpeed sets the median speed of the other ranks with the same model and role; 0 is
// unknown.
func (l *Load) setSimilarSpeed(now time.Time, speed float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.check.speed.similar == speed {
		return
	}
	l.check.speed.similar = speed
	l.published.begin()
	l.published.setRate(l.check.speed.believed(now))
	l.published.end()
}
