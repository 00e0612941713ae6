package sidecar

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

const (
	// kept is how long a found worker whose socket is gone stays a worker: a restart of SGLang takes longer than that, a restart
	// of a simulated one does not, and routers see by their own probes that it is dead.
	kept = 10 * time.Second
	// maxAsks bounds how often a server that says nothing is asked: with pauses that double from 5 s, for five minutes.
	maxAsks    = 6
	firstPause = 5 * time.Second
	// startPause is between two questions to a process that looks like SGLang: it loads its model, and answers when it has.
	startPause = 5 * time.Second
	// asksAtOnce bounds how many new ports are asked at a time.
	asksAtOnce = 16
	// ownersEvery is how often sockets without a process that we see are looked for again.
	ownersEvery = time.Minute
)

// Found is a worker of this machine.
type Found struct {
	URL    string         // under which this node reaches it
	Public string         // under which routers do; "" where they cannot
	Why    string         // why they cannot
	PID    int            // of its HTTP server; 0 where that cannot be seen
	Named  bool           // by the operator
	Listen netip.AddrPort // its socket; zero where that cannot be seen
	Info   *worker.Info   // what it said when it was found; nil of one that was named
}

// candidate is a listening socket and what is known of who listens.
type candidate struct {
	listener
	pid     int
	command string
	asks    int
	next    time.Time // when it is asked; zero: never again
	why     string    // why it is no worker
	url     string    // of the worker that it is
}

// registry watches workers; [worker.Registry] is one.
type registry interface {
	AddSpec(spec worker.Spec) (*worker.Worker, error)
	Remove(url string) error
}

// entry is a worker and when its socket was last seen.
type entry struct {
	Found
	seen time.Time
}

// finder knows the workers of the machine. All but what mu guards belongs to its goroutine.
type finder struct {
	cfg      *Config
	procs    processes
	registry registry
	log      *slog.Logger
	self     int           // this process, which is no worker
	wait     time.Duration // for an answer of somebody who may be a worker
	sockets  map[listener]*candidate
	workers  map[string]*entry // by URL
	ownersAt time.Time
	hidden   int
	changed  chan struct{} // capacity 1: there is something new
	warned   map[string]bool

	mu     sync.Mutex
	found  []Found    // guarded by mu; sorted by URL
	report FindReport // guarded by mu
	done   bool       // guarded by mu; looked once
}

func newFinder(cfg *Config, registry registry) (*finder, error) {
	f := &finder{
		cfg: cfg, procs: processes{cfg.Proc}, registry: registry, log: cfg.Log, self: os.Getpid(), sockets: map[listener]*candidate{},
		workers: map[string]*entry{}, changed: make(chan struct{}, 1), warned: map[string]bool{}, wait: worker.IdentifyTimeout,
	}
	for _, url := range cfg.Workers {
		spec, err := worker.Spec{URL: url}.Normal()
		if err != nil {
			return nil, err
		}
		f.workers[spec.URL] = &entry{Found: Found{URL: spec.URL, Named: true}}
	}
	return f, nil
}

// run looks at the sockets until ctx ends.
func (f *finder) run(ctx context.Context) {
	tick := time.NewTicker(f.cfg.FindEvery)
	defer tick.Stop()
	f.start()
	for {
		f.look(ctx, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// start watches the workers that the operator named.
func (f *finder) start() {
	for url := range f.workers {
		if _, err := f.registry.AddSpec(worker.Spec{URL: url}); err != nil {
			f.log.Warn("node cannot watch a worker", "worker", url, "error", err)
		}
	}
}

// look is one look at the sockets.
func (f *finder) look(ctx context.Context, now time.Time) {
	sockets, err := listeners(f.cfg.Proc)
	if err != nil {
		f.log.Warn("node cannot read the listening sockets", "error", err)
		f.looked(f.describe(nil, err.Error()))
		return
	}
	sockets = slices.DeleteFunc(sockets, func(l listener) bool { return !f.cfg.Ports.has(l.addr.Port()) && f.nameOf(l) == nil })
	f.identifyOwners(sockets, now)
	var due []*candidate
	for _, l := range sockets {
		c := f.sockets[l]
		if name := f.nameOf(l); name != nil {
			name.PID, name.Listen, name.seen = c.pid, l.addr, now
			c.next, c.why = time.Time{}, ""
			continue
		}
		if e := f.workers[c.url]; e != nil && c.url != "" {
			e.seen, e.PID = now, c.pid
		} else if !f.cfg.NoFind && !c.next.IsZero() && !now.Before(c.next) && !f.shadowed(c, sockets) {
			due = append(due, c)
		}
	}
	f.ask(ctx, due, now)
	f.forget(now)
	f.looked(f.describe(sockets, ""))
}

// nameOf is the worker that the operator named at a socket.
func (f *finder) nameOf(l listener) *entry {
	for _, e := range f.workers {
		if e.Named && isAt(e.URL, l) {
			return e
		}
	}
	return nil
}

// shadowed reports whether another socket of the same port, which comes first, is the one to ask: servers listen on 0.0.0.0 and on ::.
func (f *finder) shadowed(c *candidate, sockets []listener) bool {
	for _, l := range sockets {
		if l == c.listener {
			return false
		}
		if l.addr.Port() == c.addr.Port() && l.reach()[0] == c.reach()[0] {
			return true
		}
	}
	return false
}

// identifyOwners makes candidates of new sockets and forgets those that are gone.
func (f *finder) identifyOwners(sockets []listener, now time.Time) {
	lost := map[uint64]bool{}
	again := now.Sub(f.ownersAt) >= ownersEvery
	there := make(map[listener]bool, len(sockets))
	for _, l := range sockets {
		there[l] = true
		if c := f.sockets[l]; c == nil || (c.pid == 0 && again) {
			lost[l.inode] = true
		}
	}
	for l := range f.sockets {
		if !there[l] {
			delete(f.sockets, l)
		}
	}
	if len(lost) == 0 {
		return
	}
	f.ownersAt = now
	var pids map[uint64]int
	pids, f.hidden = f.procs.owners(lost)
	for _, l := range sockets {
		c := f.sockets[l]
		if c == nil {
			c = &candidate{listener: l, next: now}
			f.sockets[l] = c
		}
		if pid := pids[l.inode]; pid != 0 && c.pid == 0 {
			c.pid, c.command = pid, f.procs.command(pid)
			if why := f.unfit(pid, c.command); why != "" {
				c.next, c.why = time.Time{}, why
			}
		}
	}
}

// unfit says why a process is known to be no worker without asking it.
func (f *finder) unfit(pid int, command string) string {
	if pid == f.self {
		return "this process"
	}
	// SGLang's own helpers listen for each other, and a line of HTTP would be an error in their logs.
	for _, name := range []string{"sglang::scheduler", "sglang::detokenizer", "sglang::data_parallel"} {
		if strings.HasPrefix(command, name) {
			return "a part of SGLang"
		}
	}
	if strings.Contains(command, "sglang_router") || strings.Contains(command, "sglang-router") {
		return "a router"
	}
	return ""
}

// looksLikeSGLang is a process that is worth waiting for.
func looksLikeSGLang(command string) bool { return strings.Contains(command, "sglang") }

// answer is what a socket said.
type answer struct {
	c    *candidate
	info *worker.Info // nil: it is no worker, or not yet
}

// ask asks who is at sockets, each once. Workers are told of as they answer: others may say nothing for seconds.
func (f *finder) ask(ctx context.Context, due []*candidate, now time.Time) {
	answers := make(chan answer, len(due))
	var group errgroup.Group
	group.SetLimit(asksAtOnce)
	go func() {
		for _, c := range due {
			group.Go(func() error {
				answers <- answer{c, f.askOne(ctx, c, now)}
				return nil
			})
		}
		_ = group.Wait()
		close(answers)
	}()
	for a := range answers {
		if a.info != nil {
			f.add(a.c, a.info, now)
			f.publish()
		}
	}
}

// askOne returns nil where nobody said that he is a worker.
func (f *finder) askOne(ctx context.Context, c *candidate, now time.Time) *worker.Info {
	scheme := "http://"
	if strings.Contains(c.command, "--ssl-certfile") {
		scheme = "https://"
	}
	settings := worker.Config{Timeout: f.wait, TLS: f.cfg.TLS, Dial: f.cfg.Dial}
	var failed error
	for _, addr := range c.reach() {
		info, err := worker.Identify(ctx, scheme+addr, settings)
		if err == nil {
			if said := info.Placement.Port; said != 0 && said != int(c.addr.Port()) {
				failed = fmt.Errorf("answers for a worker on port %d: a router or a mapped port; if it is a worker, name it: %w", said, worker.ErrNotWorker)
				break
			}
			c.url = scheme + addr
			return info
		}
		failed = err
	}
	c.asks++
	switch c.why = failed.Error(); {
	case errors.Is(failed, worker.ErrNotWorker):
		c.next = time.Time{}
	case looksLikeSGLang(c.command):
		c.next = now.Add(startPause)
	case c.asks >= maxAsks:
		c.next = time.Time{}
	default:
		c.next = now.Add(firstPause << (c.asks - 1))
	}
	return nil
}

// add makes a worker of a candidate.
func (f *finder) add(c *candidate, info *worker.Info, now time.Time) {
	c.why, c.next = "", time.Time{}
	found := Found{URL: c.url, PID: c.pid, Listen: c.addr, Info: info}
	if _, known := f.workers[c.url]; !known {
		if _, err := f.registry.AddSpec(worker.Spec{URL: c.url}); err != nil {
			c.why = err.Error()
			return
		}
		f.log.Info("node found a worker", "worker", c.url, "pid", c.pid, "role", info.Role().String(), "model", info.Model(), "tp", info.TPSize)
	}
	f.workers[c.url] = &entry{Found: found, seen: now}
}

// forget drops found workers whose sockets have been gone for some time.
func (f *finder) forget(now time.Time) {
	for url, e := range f.workers {
		if e.Named && e.seen != now {
			e.PID = 0 // whatever has that number next is not it
		}
		if e.Named || now.Sub(e.seen) < kept {
			continue
		}
		delete(f.workers, url)
		delete(f.warned, url)
		if err := f.registry.Remove(url); err != nil {
			f.log.Warn("node cannot forget a worker", "worker", url, "error", err)
			continue
		}
		f.log.Info("node's worker is gone", "worker", url)
	}
}

// looked ends a look.
func (f *finder) looked(report FindReport) {
	f.mu.Lock()
	f.report, f.done = report, true
	f.mu.Unlock()
	f.publish()
}

// publish hands out the workers of now.
func (f *finder) publish() {
	found := make([]Found, 0, len(f.workers))
	for _, e := range f.workers {
		one := e.Found
		one.Public, one.Why = f.cfg.public(&one)
		if one.Why != "" && !f.warned[one.URL] {
			f.warned[one.URL] = true
			f.log.Warn("routers cannot reach a worker of this node", "worker", one.URL, "reason", one.Why)
		}
		found = append(found, one)
	}
	slices.SortFunc(found, func(a, b Found) int { return strings.Compare(a.URL, b.URL) })
	f.mu.Lock()
	f.found = found
	f.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// view returns what was found last; done is false before the first look.
func (f *finder) view() (found []Found, report FindReport, done bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.found, f.report, f.done
}
