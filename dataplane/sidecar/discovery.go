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
	// goneGrace is the time for which a worker without socket stays a worker: a restart of SGLang
	// takes longer, and routers see by their own probes that it is dead.
	goneGrace = 10 * time.Second
	// maxAsks bounds the questions to a server that does not answer: with pauses that double from
	// firstPause, it is asked for five minutes.
	maxAsks    = 6
	firstPause = 5 * time.Second
	// loadingPause is the pause between questions to a process that looks like SGLang: it loads its
	// model, and answers afterwards.
	loadingPause = 5 * time.Second
	// maxConcurrentAsks bounds the sockets that are asked at once.
	maxConcurrentAsks = 16
	// ownersEvery is the interval at which the processes of sockets are looked up again.
	ownersEvery = time.Minute
)

// LocalWorker is a worker of this machine.
type LocalWorker struct {
	URL         string         // for this node
	Public      string         // for routers; "" where they cannot reach it
	Unreachable string         // the reason for that
	PID         int            // of its HTTP server; 0 where it is not visible
	Named       bool           // by the operator
	Listen      netip.AddrPort // its socket; zero where it is not visible
	Info        *worker.Info   // its answer at discovery; nil of a named worker
}

// probedSocket is a listening socket and the knowledge of its process.
type probedSocket struct {
	listenSocket
	pid     int
	command string
	asks    int
	next    time.Time // of the next question; zero: none
	reason  string    // why it is no worker
	foreign bool      // of a user that is not admitted
	access  socketAccess
	url     string // of its worker
}

// registry watches workers; [worker.Registry] is one.
type registry interface {
	AddSpec(spec worker.Spec) (*worker.Worker, error)
	Remove(url string) error
}

// knownWorker is a worker and the time when its socket was last seen.
type knownWorker struct {
	LocalWorker
	lastSeen time.Time
}

// discovery finds the workers of the machine. All fields above mu belong to its goroutine.
type discovery struct {
	cfg       *Config
	processes processes
	registry  registry
	log       *slog.Logger
	self      int           // PID of this process, which is no worker
	wait      time.Duration // for an answer
	sockets   map[listenSocket]*probedSocket
	workers   map[string]*knownWorker // by URL
	ownersAt  time.Time
	hidden    int
	changed   chan struct{} // capacity 1: the workers have changed
	warned    map[string]bool

	mu      sync.Mutex
	keyed   map[string]bool // by URL: see mayHaveKey; guarded by mu
	found   []LocalWorker   // guarded by mu; sorted by URL
	report  DiscoveryReport // guarded by mu
	scanned bool            // guarded by mu; there was a scan
}

func newDiscovery(cfg *Config, registry registry) (*discovery, error) {
	d := &discovery{
		cfg: cfg, processes: processes{cfg.Proc}, registry: registry, log: cfg.Log, self: os.Getpid(), sockets: map[listenSocket]*probedSocket{},
		workers: map[string]*knownWorker{}, changed: make(chan struct{}, 1), warned: map[string]bool{}, wait: worker.IdentifyTimeout, keyed: map[string]bool{},
	}
	for _, url := range cfg.Workers {
		spec, err := worker.Spec{URL: url}.Normal()
		if err != nil {
			return nil, err
		}
		d.keyed[spec.URL] = true
		d.workers[spec.URL] = &knownWorker{LocalWorker: LocalWorker{URL: spec.URL, Named: true}}
	}
	return d, nil
}

// run scans the sockets until ctx ends.
func (d *discovery) run(ctx context.Context) error {
	tick := time.NewTicker(d.cfg.DiscoverEvery)
	defer tick.Stop()
	d.start()
	for {
		d.scan(ctx, time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// start watches the named workers.
func (d *discovery) start() {
	for url := range d.workers {
		if _, err := d.registry.AddSpec(worker.Spec{URL: url}); err != nil {
			d.log.Warn("cannot watch a worker", "worker", url, "error", err)
		}
	}
}

// scan looks at all listening sockets once.
func (d *discovery) scan(ctx context.Context, now time.Time) {
	sockets, err := readSockets(d.cfg.Proc)
	if err != nil {
		d.log.Warn("cannot read the listening sockets", "error", err)
		d.finish(d.describe(nil, err.Error()))
		return
	}
	sockets = slices.DeleteFunc(sockets, func(l listenSocket) bool { return !d.cfg.Ports.has(l.addr.Port()) && d.namedAt(l) == nil })
	d.findOwners(sockets, now)
	d.excludeForeign(sockets)
	var due []*probedSocket
	for _, l := range sockets {
		c := d.sockets[l]
		if named := d.namedAt(l); named != nil {
			named.PID, named.Listen, named.lastSeen = c.pid, l.addr, now
			c.next, c.reason, c.foreign = time.Time{}, "", false
			continue
		}
		if c.foreign {
			continue
		}
		d.noticeKey(c, now)
		if w := d.workers[c.url]; w != nil && c.url != "" {
			w.lastSeen, w.PID = now, c.pid
		} else if !d.cfg.NoDiscovery && !c.next.IsZero() && !now.Before(c.next) && !d.hasEarlierSocket(c, sockets) {
			due = append(due, c)
		}
	}
	d.ask(ctx, due, now)
	d.dropGone(now)
	d.finish(d.describe(sockets, ""))
}

// namedAt returns the named worker of a socket, or nil.
func (d *discovery) namedAt(l listenSocket) *knownWorker {
	for _, w := range d.workers {
		if w.Named && leadsTo(w.URL, l) {
			return w
		}
	}
	return nil
}

// hasEarlierSocket reports whether an earlier socket of the same port is asked instead: servers
// listen on 0.0.0.0 and on ::.
func (d *discovery) hasEarlierSocket(c *probedSocket, sockets []listenSocket) bool {
	for _, l := range sockets {
		if l == c.listenSocket {
			return false
		}
		if l.addr.Port() == c.addr.Port() && l.dialAddresses()[0] == c.dialAddresses()[0] {
			return true
		}
	}
	return false
}

// findOwners looks up the processes of new sockets, and forgets sockets that are gone.
func (d *discovery) findOwners(sockets []listenSocket, now time.Time) {
	unowned := map[uint64]bool{}
	again := now.Sub(d.ownersAt) >= ownersEvery
	present := make(map[listenSocket]bool, len(sockets))
	for _, l := range sockets {
		present[l] = true
		if c := d.sockets[l]; c == nil || (c.pid == 0 && again) {
			unowned[l.inode] = true
		}
	}
	for l := range d.sockets {
		if !present[l] {
			delete(d.sockets, l)
		}
	}
	if len(unowned) == 0 {
		return
	}
	d.ownersAt = now
	var pids map[uint64]int
	pids, d.hidden = d.processes.owners(unowned)
	for _, l := range sockets {
		c := d.sockets[l]
		if c == nil {
			c = &probedSocket{listenSocket: l, next: now}
			d.sockets[l] = c
		}
		if pid := pids[l.inode]; pid != 0 && c.pid == 0 {
			c.pid, c.command = pid, d.processes.command(pid)
			if reason := d.excluded(pid, c.command); reason != "" {
				c.next, c.reason = time.Time{}, reason
			}
		}
	}
}

// excluded returns the reason why a process is no worker, as far as its command tells, or "".
func (d *discovery) excluded(pid int, command string) string {
	if pid == d.self {
		return "this process"
	}
	// SGLang's helper processes listen for each other, and would log an HTTP request as an error.
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

// isSGLang reports whether a process may become a worker later.
func isSGLang(command string) bool { return strings.Contains(command, "sglang") }

// ask asks sockets for their server information. A worker is published as soon as it answers, as
// other servers may be silent for seconds.
func (d *discovery) ask(ctx context.Context, due []*probedSocket, now time.Time) {
	type answer struct {
		c    *probedSocket
		info *worker.Info // nil: it is no worker, or not yet
	}
	answers := make(chan answer, len(due))
	var group errgroup.Group
	group.SetLimit(maxConcurrentAsks)
	go func() {
		for _, c := range due {
			group.Go(func() error {
				answers <- answer{c, d.askOne(ctx, c, now)}
				return nil
			})
		}
		_ = group.Wait()
		close(answers)
	}()
	for a := range answers {
		if a.info != nil {
			d.addWorker(a.c, a.info, now)
			d.publish()
		}
	}
}

// askOne returns the information of a worker, or nil where the socket is none.
func (d *discovery) askOne(ctx context.Context, c *probedSocket, now time.Time) *worker.Info {
	scheme := c.scheme()
	var failed error
	for _, addr := range c.dialAddresses() {
		info, err := d.identify(ctx, c, scheme+addr)
		if err == nil {
			if port := info.Placement.Port; port != 0 && port != int(c.addr.Port()) {
				failed = fmt.Errorf("answers for a worker on port %d: a router or a mapped port; if it is a worker, name it: %w", port, worker.ErrNotWorker)
				break
			}
			c.url = scheme + addr
			return info
		}
		failed = err
	}
	c.asks++
	switch c.reason = failed.Error(); {
	case errors.Is(failed, worker.ErrNotWorker):
		c.next = time.Time{}
	case isSGLang(c.command):
		c.next = now.Add(loadingPause)
	case c.asks >= maxAsks:
		c.next = time.Time{}
	default:
		c.next = now.Add(firstPause << (c.asks - 1))
	}
	return nil
}

// addWorker adds the worker of a socket.
func (d *discovery) addWorker(c *probedSocket, info *worker.Info, now time.Time) {
	c.reason, c.next = "", time.Time{}
	found := LocalWorker{URL: c.url, PID: c.pid, Listen: c.addr, Info: info}
	if c.access.keyed {
		d.mu.Lock()
		d.keyed[c.url] = true
		d.mu.Unlock()
	}
	if _, known := d.workers[c.url]; !known {
		if _, err := d.registry.AddSpec(worker.Spec{URL: c.url}); err != nil {
			c.reason = err.Error()
			return
		}
		d.log.Info("discovered a worker", "worker", c.url, "pid", c.pid, "role", info.Role().String(), "model", info.Model(), "tp", info.TPSize)
	}
	d.workers[c.url] = &knownWorker{LocalWorker: found, lastSeen: now}
}

// dropGone removes discovered workers without a socket for goneGrace.
func (d *discovery) dropGone(now time.Time) {
	for url, w := range d.workers {
		if w.Named && w.lastSeen != now {
			w.PID = 0 // another process may get that number
		}
		if w.Named || now.Sub(w.lastSeen) < goneGrace {
			continue
		}
		delete(d.workers, url)
		delete(d.warned, url)
		d.mu.Lock()
		delete(d.keyed, url)
		d.mu.Unlock()
		if err := d.registry.Remove(url); err != nil {
			d.log.Warn("cannot remove a worker", "worker", url, "error", err)
			continue
		}
		d.log.Info("a worker is gone", "worker", url)
	}
}

// finish ends a scan.
func (d *discovery) finish(report DiscoveryReport) {
	d.mu.Lock()
	d.report, d.scanned = report, true
	d.mu.Unlock()
	d.publish()
}

// publish hands out the present workers.
func (d *discovery) publish() {
	found := make([]LocalWorker, 0, len(d.workers))
	for _, w := range d.workers {
		one := w.LocalWorker
		one.Public, one.Unreachable = d.cfg.public(&one)
		if one.Unreachable != "" && !d.warned[one.URL] {
			d.warned[one.URL] = true
			d.log.Warn("routers cannot reach a worker of this node", "worker", one.URL, "reason", one.Unreachable)
		}
		found = append(found, one)
	}
	slices.SortFunc(found, func(a, b LocalWorker) int { return strings.Compare(a.URL, b.URL) })
	d.mu.Lock()
	d.found = found
	d.mu.Unlock()
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// view returns the workers and the report of the last scan; scanned is false before the first one.
func (d *discovery) view() (found []LocalWorker, report DiscoveryReport, scanned bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.found, d.report, d.scanned
}
