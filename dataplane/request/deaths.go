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
)

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
	return &culprits{log: cfg.Log, seed: maphash.MakeSeed(), refuse: cfg.Quarantine, until: map[uint64]time.Time{}, ended: map[*worker.Worker]time.Time{},
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
		gone := x.h.culprits.gone(rank.Worker, x.attempt.sent, ending)
		if !gone && (!hung || leg != int(x.attempt.failedLeg)) {
			continue
		}
		if !x.req.Stream && rank.Worker.Alive().Sub(x.attempt.sent) >= settledAfter {
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
