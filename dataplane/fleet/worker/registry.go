package worker

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/modelfile"
	"github.com/warmpath/warmpath/dataplane/secrets"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// Errors of Add and Remove.
var (
	ErrUnknown   = errors.New("there is no such worker")
	ErrDuplicate = errors.New("worker: already there")
	ErrBadURL    = errors.New("worker: bad URL")
	ErrClosed    = errors.New("worker: registry is closed")
)

// Config holds the registry's settings; zero fields take the defaults.
type Config struct {
	Interval time.Duration // between probes; default 250 ms
	Timeout  time.Duration // of one probe; default 500 ms
	// Between two GET /v1/loads of a worker that does not publish its load; default 1 s,
	// negative: never.
	LoadEvery time.Duration
	// Of unanswered probes, after which requests without a first byte go elsewhere; default 5 s.
	HangAfter time.Duration
	Log       *slog.Logger
	// Dial connects to a worker for a probe; default a net.Dialer's DialContext.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Resolve returns the addresses of a name. The connections of a worker whose name has moved are
	// made anew; nil: names are not followed.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// LookEvery is the time between two calls of Resolve for a worker; default 10 s: 50 a second
	// for 500 workers, and within the usual 30 s of records' lives.
	LookEvery time.Duration
	// Moved is called with the address to dial of such a worker, for the connections of requests;
	// may be nil.
	Moved func(addr string)
	// TLS returns the settings of connections, for probes and for requests, to the worker at
	// host; default the system's authorities and no client certificate.
	TLS func(host string) *tls.Config
	// Files reads a model's config.json at the path that its worker names; nil reads none.
	Files *modelfile.Reader
	// Key returns the API key of the worker at url, for probes and for requests; see Keys. Default
	// none.
	Key func(url string) *Key
}

func (c *Config) setDefaults() {
	// With Timeout: a dead worker is out in under a second.
	c.Interval = cmp.Or(c.Interval, 250*time.Millisecond)
	c.Timeout = cmp.Or(c.Timeout, 500*time.Millisecond)
	c.LoadEvery = cmp.Or(c.LoadEvery, time.Second)
	c.HangAfter = cmp.Or(c.HangAfter, 5*time.Second)
	c.LookEvery = cmp.Or(c.LookEvery, 10*time.Second)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	if c.Key == nil {
		c.Key = (*Keys)(nil).Of
	}
	if c.TLS == nil {
		c.TLS = new(tlsconfig.Client).Config
	}
}

// Observer hears of workers that come and go. Calls for one worker come in order from one
// goroutine; they must not block for long.
type Observer interface {
	// Up is called when a worker becomes ready with a cache of its own: at first sight and after
	// each Down.
	Up(w *Worker, info *Info)
	// Down is called when a worker's process is gone, and its cache with it.
	Down(w *Worker)
}

// Observers passes each call on to its elements in order.
type Observers []Observer

var _ Observer = Observers{}

// Up implements Observer.
func (o Observers) Up(w *Worker, info *Info) {
	for _, one := range o {
		one.Up(w, info)
	}
}

// Down implements Observer.
func (o Observers) Down(w *Worker) {
	for _, one := range o {
		one.Down(w)
	}
}

// Snapshot is the set of workers at one moment.
type Snapshot struct {
	Workers []*Worker
	Ranks   []*Rank // all ranks of all workers, in the order of Workers
}

// Registry holds the workers and watches their health.
type Registry struct {
	cfg      atomic.Pointer[Config] // immutable; Configure makes another one
	observer Observer
	snap     atomic.Pointer[Snapshot]
	numbers  numbers    // of ranks
	facts    sync.Mutex // held while facts about GPUs are taken in, some µs; never by choices

	comparing  sync.Mutex         // held while workers are compared
	compareDue time.Time          // when they are next; guarded by comparing
	firsts     map[uint64]*Worker // by process; guarded by comparing

	mu      sync.Mutex
	closed  bool                // guarded by mu
	added   uint64              // workers ever; guarded by mu
	workers map[string]*monitor // by URL; guarded by mu
	ending  map[string]*monitor // by URL, removed and not yet forgotten; guarded by mu
	running sync.WaitGroup
}

// NewRegistry returns an empty registry. observer may be nil.
func NewRegistry(cfg Config, observer Observer) *Registry {
	cfg.setDefaults()
	r := &Registry{observer: observer, workers: make(map[string]*monitor), ending: make(map[string]*monitor)}
	r.cfg.Store(&cfg)
	r.snap.Store(&Snapshot{})
	return r
}

// Snapshot returns the workers as they are now.
func (r *Registry) Snapshot() *Snapshot { return r.snap.Load() }

// Add begins to watch the worker at url. It returns before the worker is
// known to be there.
func (r *Registry) Add(url string) (*Worker, error) { return r.AddSpec(Spec{URL: url}) }

// AddSpec is Add for a worker of which more is known than its URL.
func (r *Registry) AddSpec(spec Spec) (*Worker, error) {
	cfg := r.cfg.Load()
	w, err := newWorker(spec, cfg.TLS, &r.numbers)
	if err != nil {
		return nil, err
	}
	w.key.Store(cfg.Key(w.URL)) // may read the file of keys
	r.lockForgotten(w.URL)
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	if _, ok := r.workers[w.URL]; ok {
		return nil, fmt.Errorf("cannot add worker %s: %w", w.URL, ErrDuplicate)
	}
	w.hostNumber, w.registry = r.hostNumberLocked(w.host), r
	ctx, cancel := context.WithCancel(context.Background())
	m := &monitor{r: r, w: w, cfg: cfg, probe: newWatcher(ctx, w, cfg), cancel: cancel, done: make(chan struct{}), number: r.added}
	r.added++
	r.workers[w.URL] = m
	r.publishLocked()
	r.running.Go(func() { m.run(ctx) })
	return w, nil
}

// hostNumberLocked numbers a host: as a worker that is there, else by the smallest
// number that none has.
func (r *Registry) hostNumberLocked(host string) uint32 {
	taken := make([]bool, len(r.workers)+1)
	for _, m := range r.workers {
		if m.w.host == host {
			return m.w.hostNumber
		}
		if int(m.w.hostNumber) < len(taken) {
			taken[m.w.hostNumber] = true
		}
	}
	return uint32(slices.Index(taken, false))
}

// lockForgotten locks mu when the worker at url is not being forgotten: observers must hear the
// end of the old worker before the begin of a new one.
func (r *Registry) lockForgotten(url string) {
	r.mu.Lock()
	for m := r.ending[url]; m != nil; m = r.ending[url] {
		r.mu.Unlock()
		<-m.done
		r.mu.Lock()
		r.forgetLocked(m)
	}
}

// forgetLocked ends the wait for a monitor that has ended; the first caller does it.
func (r *Registry) forgetLocked(m *monitor) {
	if r.ending[m.w.URL] == m {
		delete(r.ending, m.w.URL)
	}
}

// Remove forgets the worker at url, cache and all. Requests that it has run on.
func (r *Registry) Remove(url string) error {
	forgotten, err := r.Detach(url)
	if err == nil {
		forgotten()
	}
	return err
}

// Detach is Remove for callers that must not wait: the worker leaves the choice at once. The
// returned function, which must be called, returns when the worker is forgotten, which takes a
// while for a large cache.
func (r *Registry) Detach(url string) (forgotten func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.findLocked(url)
	if m == nil {
		return nil, fmt.Errorf("cannot remove worker %s: %w", secrets.MaskURL(url), ErrUnknown)
	}
	delete(r.workers, m.w.URL)
	r.ending[m.w.URL] = m
	r.publishLocked()
	m.cancel()
	return func() {
		<-m.done
		r.mu.Lock()
		defer r.mu.Unlock()
		r.forgetLocked(m)
	}, nil
}

// Update changes a worker's spec. It stays in the choice meanwhile, and keeps its cache.
func (r *Registry) Update(spec Spec) error {
	spec, err := spec.Normal()
	if err != nil {
		return err
	}
	w, err := r.Get(spec.URL)
	if err != nil {
		return err
	}
	w.spec.Store(&spec)
	w.DrainFor(DrainSource, spec.Drain)
	w.specChanged.Store(true)
	w.Probe()
	return nil
}

// Configure changes the settings: change gets a copy of the present ones. Monitors take them
// over with their next probe.
func (r *Registry) Configure(change func(*Config)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cfg := *r.cfg.Load()
	change(&cfg)
	cfg.setDefaults()
	r.cfg.Store(&cfg)
}

// Get returns the worker at url, in any spelling.
func (r *Registry) Get(url string) (*Worker, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.findLocked(url); m != nil {
		return m.w, nil
	}
	return nil, fmt.Errorf("cannot find worker %s: %w", secrets.MaskURL(url), ErrUnknown)
}

func (r *Registry) findLocked(url string) *monitor {
	if m := r.workers[url]; m != nil {
		return m
	}
	return r.workers[NormalURL(url)]
}

// Run waits for ctx and then stops every monitor.
func (r *Registry) Run(ctx context.Context) error {
	<-ctx.Done()
	r.mu.Lock()
	r.closed = true
	for _, m := range r.workers {
		m.cancel()
	}
	r.mu.Unlock()
	r.running.Wait()
	return nil
}

// publish makes a new snapshot after a change of workers or ranks.
func (r *Registry) publish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.publishLocked()
}

func (r *Registry) publishLocked() {
	s := &Snapshot{}
	for _, m := range r.workers {
		s.Workers = append(s.Workers, m.w)
	}
	slices.SortFunc(s.Workers, func(a, b *Worker) int { return strings.Compare(a.URL, b.URL) })
	for _, w := range s.Workers {
		s.Ranks = append(s.Ranks, w.Ranks()...)
	}
	r.snap.Store(s)
}

// compareEvery is how often the workers are compared: speeds are means over minutes.
const compareEvery = time.Second

// compare compares the workers with each other, at most once a compareEvery. Any monitor may call
// it.
func (r *Registry) compare(now time.Time) {
	if !r.comparing.TryLock() {
		return
	}
	defer r.comparing.Unlock()
	if now.Before(r.compareDue) {
		return
	}
	r.compareDue = now.Add(compareEvery)
	r.findDoubles()
	r.compareSpeeds(now)
}

// FindDoubles compares the processes of workers at once, as all monitors together do once a second.
func (r *Registry) FindDoubles() {
	r.comparing.Lock()
	defer r.comparing.Unlock()
	r.findDoubles()
}

// compareSpeeds gives each rank the median speed of the others that serve its model in its role.
func (r *Registry) compareSpeeds(now time.Time) {
	type group struct {
		model string
		role  Role
	}
	type proved struct {
		rank  *Rank
		speed float64
	}
	groups := make(map[group][]proved)
	for _, rank := range r.Snapshot().Ranks {
		if info := rank.Worker.Info(); info != nil {
			g := group{info.Model(), info.Role()}
			groups[g] = append(groups[g], proved{rank, rank.Load.ownSpeed()})
		}
	}
	for _, all := range groups {
		sorted := make([]float64, 0, len(all))
		for _, p := range all {
			if p.speed > 0 {
				sorted = append(sorted, p.speed)
			}
		}
		slices.Sort(sorted)
		for _, p := range all {
			p.rank.Load.setSimilarSpeed(now, medianWithout(sorted, p.speed))
		}
	}
}

// medianWithout returns the lower median of sorted without one element of that value; a speed
// of 0 is no element. 0: none is left.
func medianWithout(sorted []float64, own float64) float64 {
	n := len(sorted)
	if own > 0 {
		n--
	}
	if n <= 0 {
		return 0
	}
	i := (n - 1) / 2
	if own > 0 && sorted[i] >= own { // it stands at i or before
		i++
	}
	return sorted[i]
}
