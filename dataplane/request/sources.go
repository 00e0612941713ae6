package request

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/request/clientkey"
)

// sources are the clients and the prompts of requests that failed while no other worker could be
// asked, or none did better. Such a failure may be the request's own: an ill client would open the
// breaker of each worker that it reaches. It counts against the worker where client and prompt are
// new, or where other workers answer the same client, or the same prompt, well.
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
	key       uint64
	at        int64  // unix nanoseconds of the last failure
	worker    string // that failed it first
	several   bool   // others have failed it too
	elsewhere bool   // another worker has answered it well since
	budget    retryBudget
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
	counts = fresh || s.worker == w.URL && s.elsewhere && !s.several
	if fresh {
		s.worker, s.several = w.URL, false
	}
	s.several = s.several || s.worker != w.URL
	s.at, s.elsewhere = now, false
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
	t.clients[client%maxSources].answered(client, x)
	t.prompts[prompt%maxSources].answered(prompt, x)
}

func (s *source) answered(key uint64, x *exchange) {
	d := &x.choice.decision
	if s.key == key && s.worker != d.Rank.Worker.URL && (d.Decode == nil || s.worker != d.Decode.Worker.URL) {
		s.elsewhere = true
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
