package request

import (
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/singleflight"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/request/clientkey"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// errorAnswer is an error that a worker has answered with, or a connection that it has lost, while
// other workers are asked.
type errorAnswer struct {
	rank *worker.Rank
	finding
	paid    bool // it has a price if the retry is in vain
	lost    bool // there was no answer
	counted bool // against the worker
}

// errorAnswers are those of one request. They count against their workers once it is known how the
// last worker answers.
type errorAnswers struct {
	x        *exchange
	list     []errorAnswer
	best     *upstream.Kept // the client's answer where no worker has a better one
	bestRank *worker.Rank
	bestCode int // the status that it hides; 0: none
}

// doubtful reports whether an error is worth a retry: few requests get it from the worker, and no
// earlier worker has confirmed it.
func (a *errorAnswers) doubtful(f finding, rank *worker.Rank) bool {
	// A second error that may itself be wrong is no reason to stop.
	if !rank.Worker.NeedsSecondOpinion(f.status) && len(a.list) == 0 {
		return false
	}
	for _, e := range a.list {
		if !e.lost && e.status == f.status && (e.rank.Worker.Credible(f.status) || rank.Worker.Credible(f.status)) {
			return false
		}
	}
	return true
}

// hold keeps an error, and its answer if that is the best yet: of several 429 and 503, the one with
// the soonest Retry-After.
func (a *errorAnswers) hold(kept *upstream.Kept, f finding, rank *worker.Rank) {
	a.list = append(a.list, errorAnswer{rank: rank, finding: f, paid: !f.cause.leadsTo(free)})
	a.x.h.metrics.retries.Inc()
	a.keep(kept, f, rank)
}

// keep keeps an error's answer if that is the best yet.
func (a *errorAnswers) keep(kept *upstream.Kept, f finding, rank *worker.Rank) {
	if kept == nil || f.mute {
		return
	}
	if a.best == nil || f.cause != causeBusy || kept.RetryAfter() >= 0 && kept.RetryAfter() < a.best.RetryAfter() {
		a.best, a.bestRank, a.bestCode = kept, rank, 0
		if f.hidden {
			a.bestCode = f.status
		}
	}
}

// blame takes in the failure of an attempt at a rank, and excludes that from the choice. Where the
// rank is excused, the failure does not count against its worker.
func (x *exchange) blame(rank *worker.Rank, c cause, excused bool) {
	rank.Count.Errors.Add(1)
	if c.leadsTo(suspect) {
		rank.Worker.Suspect()
	}
	if !excused {
		x.errors.failed(rank, c)
	}
	x.choice.exclude(rank)
}

// failed takes in a failure without an answer.
func (a *errorAnswers) failed(rank *worker.Rank, c cause) {
	now := time.Now()
	if !c.speaksAgainst(rank, now) {
		return
	}
	at := failures[c].fault
	counted := at == faultWorker || at == faultLoss && a.x.h.sources.countsAgainst(rank.Worker, a.x, now)
	if counted {
		rank.Worker.Fault(now)
	}
	if at != faultWorker {
		a.list = append(a.list, errorAnswer{rank: rank, finding: finding{cause: c}, lost: true, counted: counted})
	}
}

// settle counts the errors against the workers that gave them. rank is the last worker and f the
// beginning of its answer.
func (a *errorAnswers) settle(rank *worker.Rank, f finding) {
	if f.cause != causeNone {
		a.list = append(a.list, errorAnswer{rank: rank, finding: f})
		a.undecided()
		return
	}
	if len(a.list) == 0 {
		return
	}
	now := time.Now()
	for i := range a.list {
		e, d := &a.list[i], &a.x.choice.decision
		if e.rank != d.Rank && e.rank != d.Decode { // else its partner was at fault
			e.blame(now)
		}
	}
}

// blame counts an error against its worker: another one has answered the request well.
func (e *errorAnswer) blame(now time.Time) {
	w := e.rank.Worker
	if !e.lost {
		e.rank.Count.Errors.Add(1)
	}
	switch {
	case failures[e.cause].fault == faultBusy:
		w.Busy(now)
		return
	case !e.lost:
		w.Contradicted(e.status)
	}
	if !e.counted {
		w.Fault(now)
	}
}

// undecided takes in that no worker has answered the request well. Where several have failed it,
// that is the request's own fault. A full worker has not tried.
func (a *errorAnswers) undecided() {
	if len(a.list) == 0 {
		return
	}
	now, last := time.Now(), &a.list[len(a.list)-1]
	paid, tried, alike := 0, 0, 0
	for i := range a.list {
		e := &a.list[i]
		if e.paid {
			paid++
		}
		if failures[e.cause].fault != faultBusy {
			tried++
		}
		if e.status == last.status {
			alike++
		}
	}
	for i := range a.list {
		e := &a.list[i]
		w, at := e.rank.Worker, failures[e.cause].fault
		switch {
		case e.counted || at == faultBusy:
		case at == faultClient && alike > 1 && e.status == last.status:
			w.Confirmed(e.status)
		case at != faultClient && tried == 1 && !a.x.client.Gone():
			a.x.unexplained(w, now)
			continue
		}
		w.Inconclusive()
	}
	if paid > 0 {
		a.x.h.sources.retriedInVain(a.x, paid, now)
	}
}

// unexplained takes in a failure of a worker that no other worker has an opinion about.
func (x *exchange) unexplained(w *worker.Worker, now time.Time) {
	if x.h.sources.countsAgainst(w, x, now) {
		w.Fault(now)
	} else {
		w.Unexplained(now)
	}
}

func (a *errorAnswers) reset() {
	clear(a.list)
	a.list, a.best, a.bestRank = a.list[:0], nil, nil
}

// sources are the clients and the prompts of requests that failed while no other worker could be
// asked, or none did better. Such a failure may be the request's own: an ill client would open the
// breaker of each worker that it reaches. It counts against the worker where client and prompt are
// new, or where other workers answer the same client well, and any worker the same prompt: one that
// goes by its prefix meets no other.
type sources struct {
	seed maphash.Seed
	last atomic.Int64 // unix nanoseconds of the last failure; 0: there was none

	mu      sync.Mutex
	clients [maxSources]source // by hash, a newer one in the place of an older one; guarded by mu
	prompts [maxSources]source // guarded by mu
	budget  retryBudget        // of all clients; guarded by mu
}

const (
	// maxSources bounds each table, to 100 KB.
	maxSources = 1024
	// sourceMemory is how long a failure of a source is remembered: as long as breakers count one.
	sourceMemory = time.Minute
)

// source is a client or a prompt.
type source struct {
	key      uint64
	at       int64  // unix nanoseconds of the last failure
	worker   string // that failed it first
	several  bool   // others have failed it too
	answered bool   // well since: a client by another worker, a prompt by any
	budget   retryBudget
}

// place returns the place of a source, which is new where another one had the place.
func place(table *[maxSources]source, key uint64) *source {
	s := &table[key%maxSources]
	if s.key != key {
		*s = source{key: key}
	}
	return s
}

// failed notes a failure, and reports whether it counts against the worker.
func (s *source) failed(now int64, w *worker.Worker) (counts bool) {
	fresh := s.at == 0 || now-s.at > int64(sourceMemory)
	counts = fresh || s.worker == w.URL && s.answered && !s.several
	if fresh {
		s.worker, s.several = w.URL, false
	}
	s.several = s.several || s.worker != w.URL
	s.at, s.answered = now, false
	return counts
}

// countsAgainst notes that a worker has failed the request of x and nothing shows whose fault it
// is, and reports whether it counts against the worker.
func (t *sources) countsAgainst(w *worker.Worker, x *exchange, now time.Time) bool {
	client, prompt := t.client(x), x.req.Digest(t.seed)
	t.last.Store(now.UnixNano())
	t.mu.Lock()
	defer t.mu.Unlock()
	byClient := place(&t.clients, client).failed(now.UnixNano(), w)
	byPrompt := place(&t.prompts, prompt).failed(now.UnixNano(), w)
	return byClient && byPrompt
}

// answered notes that the workers of a decision have answered the request of x well.
func (t *sources) answered(x *exchange, now time.Time) {
	// Nearly always no source has failed lately.
	if last := t.last.Load(); last == 0 || now.UnixNano()-last > int64(sourceMemory) {
		return
	}
	client, prompt := t.client(x), x.req.Digest(t.seed)
	t.mu.Lock()
	defer t.mu.Unlock()
	d := &x.choice.decision
	if s := &t.clients[client%maxSources]; s.key == client && s.worker != d.Rank.Worker.URL && (d.Decode == nil || s.worker != d.Decode.Worker.URL) {
		s.answered = true
	}
	if s := &t.prompts[prompt%maxSources]; s.key == prompt {
		s.answered = true
	}
}

// client returns the hash of a client: of its key, else of its address.
func (t *sources) client(x *exchange) uint64 {
	return t.clientOf(x.credential.key, x.call, x.h.live().Proxies)
}

func (t *sources) clientOf(key *clientkey.Key, c call, proxies worker.Networks) uint64 {
	if key != nil {
		return maphash.String(t.seed, key.Name)
	}
	return maphash.Comparable(t.seed, c.address(proxies))
}

// mayRetry reports whether another worker may be asked after an error. credible says that the error
// is likely to be the client's mistake.
func (t *sources) mayRetry(x *exchange, credible bool, now time.Time) bool {
	client := t.client(x)
	t.mu.Lock()
	defer t.mu.Unlock()
	var own retryBudget
	if s := &t.clients[client%maxSources]; s.key == client {
		own = s.budget
	}
	need := 1.0
	for i := range x.errors.list {
		if x.errors.list[i].paid {
			need++ // a price that is due unless this retry helps
		}
	}
	if credible {
		need += reservedTokens
	}
	return own.left(now, 1) >= need && t.budget.left(now, retryClients) >= 1
}

// retriedInVain takes the price of n retries after which no worker has answered well.
func (t *sources) retriedInVain(x *exchange, n int, now time.Time) {
	client := t.client(x)
	t.mu.Lock()
	defer t.mu.Unlock()
	place(&t.clients, client).budget.spend(now, 1, n)
	t.budget.spend(now, retryClients, n)
}

// retryBudget bounds the requests that are sent again although a worker has answered them with an
// error, and that no other worker answers well either. A retry that helps costs nothing, so that a
// worker which fails many requests at once gives none of them its error.
type retryBudget struct {
	tokens float64
	at     time.Time // of tokens; zero: the budget is whole
}

const (
	// maxRetryTokens is the size of a client's token bucket, which gains one each retryTokenEvery:
	// a client that sends nothing but mistakes costs no more.
	maxRetryTokens  = 24
	retryTokenEvery = time.Second
	// reservedTokens are for errors of doubtful workers: else the clients' own mistakes could use
	// up all.
	reservedTokens = 16
	// retryClients is how many clients' budgets all of them have together: where everything fails,
	// that is all that is sent again in vain.
	retryClients = 8
)

// left returns the tokens at a time, of the budget of so many clients.
func (b *retryBudget) left(now time.Time, clients float64) float64 {
	if b.at.IsZero() {
		return maxRetryTokens * clients
	}
	gained := max(now.Sub(b.at).Seconds(), 0) / retryTokenEvery.Seconds()
	return min(b.tokens+gained*clients, maxRetryTokens*clients)
}

// spend takes n tokens, as far as they are there.
func (b *retryBudget) spend(now time.Time, clients float64, n int) {
	b.tokens = max(b.left(now, clients)-float64(n), 0)
	b.at = now
}

const (
	// maxDeaths bounds the engines that die with a request in flight before the request itself is
	// the suspect.
	maxDeaths = 2
	// settledAfter is how long an engine that still runs has begun to compute a request after: a
	// request that ends an engine does so in its first batch. A stream without a first event was
	// not computed, however long ago it was sent.
	settledAfter = 2 * time.Second
	// deathDial bounds the wait for a worker's host, and deathPause is the time in which a process
	// that ends may still accept connections.
	deathDial  = 500 * time.Millisecond
	deathPause = 20 * time.Millisecond
	// deathMemory is how long a death is known. Later ones ask the host again.
	deathMemory = time.Minute
	// maxCulprits bounds the refused requests.
	maxCulprits = 4096
)

// culprits are the requests that were in flight when two engines died. An exception in SGLang's
// scheduler ends the engine, and some bodies raise one.
type culprits struct {
	log     *slog.Logger
	seed    maphash.Seed
	refuse  time.Duration // how long equal requests are refused; 0: they are not
	dials   singleflight.Group
	caught  atomic.Uint64
	refused atomic.Uint64
	held    atomic.Int64 // len(until)
	dial    func(addr string) (net.Conn, error)

	mu    sync.Mutex
	until map[uint64]time.Time         // of refused requests, by digest; guarded by mu
	ended map[*worker.Worker]time.Time // when engines were found dead; guarded by mu
}

func newCulprits(cfg *Config) *culprits {
	return &culprits{
		log: cfg.Log, seed: maphash.MakeSeed(), refuse: cfg.Quarantine, until: map[uint64]time.Time{}, ended: map[*worker.Worker]time.Time{},
		dial: func(addr string) (net.Conn, error) { return net.DialTimeout("tcp", addr, deathDial) },
	}
}

// check refuses a request that is equal to a culprit.
func (c *culprits) check(req *openai.Request) error {
	if c.held.Load() == 0 || !req.HasBody() {
		return nil
	}
	key := req.Digest(c.seed)
	c.mu.Lock()
	left := time.Until(c.until[key])
	c.mu.Unlock()
	if left <= 0 {
		return nil
	}
	c.refused.Add(1)
	return errCulprit(key, left)
}

// add returns the error of a request that was in flight when two engines died, the last one at w.
func (c *culprits) add(req *openai.Request, name []byte, w *worker.Worker) error {
	key := req.Digest(c.seed)
	c.caught.Add(1)
	c.log.Warn("a request was in flight when two engines died, and gets an error; --quarantine refuses it for a time",
		logKeyName, string(name), "digest", fmt.Sprintf("%016x", key), "worker", w.URL, "refused_for", c.refuse)
	if c.refuse > 0 {
		now := time.Now()
		c.mu.Lock()
		maps.DeleteFunc(c.until, func(_ uint64, until time.Time) bool { return now.After(until) || len(c.until) >= maxCulprits })
		c.until[key] = now.Add(c.refuse)
		c.held.Store(int64(len(c.until)))
		c.mu.Unlock()
	}
	return errCulprit(key, c.refuse)
}

func errCulprit(key uint64, refused time.Duration) error {
	message := fmt.Sprintf("This request (%016x) was in flight when two engines died.", key)
	if refused > 0 {
		message += " It is refused for " + max(refused, time.Second).Round(time.Second).String() + "."
	}
	return &openai.Error{Status: fasthttp.StatusBadRequest, Type: "invalid_request_error", Code: "request_ends_engines", Message: message}
}

// gone reports whether a worker's process has ended: its address refuses connections. A closed
// connection is no sign of it, and a host that does not answer says nothing of its processes.
// ending says that the process may be about to end. A process that ended after the request was
// sent there had it.
func (c *culprits) gone(w *worker.Worker, sent time.Time, ending bool) bool {
	c.mu.Lock()
	known := c.ended[w].After(sent)
	c.mu.Unlock()
	if known { // thousands may have been in flight there
		return true
	}
	refuses := func() bool {
		now := time.Now()
		conn, err := c.dial(w.Addr)
		if err == nil {
			_ = conn.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return false
		}
		c.remember(w, now)
		return true
	}
	// All requests that were in flight ask at once.
	gone, _, _ := c.dials.Do(w.Addr, func() (any, error) {
		gone := refuses()
		if gone || !ending {
			return gone, nil
		}
		<-time.After(deathPause)
		return refuses(), nil
	})
	is, _ := gone.(bool)
	return is
}

// remember notes that the engine of w was dead at a time.
func (c *culprits) remember(w *worker.Worker, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.ended, func(_ *worker.Worker, at time.Time) bool { return now.Sub(at) > deathMemory })
	c.ended[w] = now
}

// countDeaths counts the engines that have died with the failed attempt in flight, prefill and
// decode workers apart, and returns an error where the request may be the cause of it. A hang
// counts as well: the HTTP process of SGLang 0.5.23 outlives its scheduler by 5 s, or by 65 s where
// it waits for a dump of the GPU.
func (x *exchange) countDeaths(deaths *[2]int, err error) error {
	d := &x.choice.decision
	ranks := [...]*worker.Rank{legPrefill: d.Rank, legDecode: d.Decode}
	c := causeOf(err)
	hung := c == causeHung
	// A leg of a pair may report a failed transfer before the other one's connection ends.
	if !x.req.HasBody() || d.Decode == nil && !c.leadsTo(death) || x.client.Gone() {
		return nil
	}
	ending := c.leadsTo(death) && !hung
	for leg, rank := range ranks {
		if rank == nil {
			continue
		}
		gone := x.h.culprits.gone(rank.Worker, x.single.sent, ending)
		if !gone && (!hung || leg != int(x.single.failedLeg)) {
			continue
		}
		if !x.req.Stream && rank.Worker.Alive().Sub(x.single.sent) >= settledAfter {
			continue
		}
		if deaths[leg]++; deaths[leg] >= maxDeaths {
			if !gone {
				return err
			}
			return x.h.culprits.add(&x.req, x.call.name(), rank.Worker)
		}
	}
	return nil
}
