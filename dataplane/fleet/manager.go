package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/discover"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/secrets"
)

const (
	// defaultDrain bounds the requests of a worker that leaves.
	defaultDrain = 30 * time.Second
	// defaultGrace is how long a healthy worker that left stays in use while no other worker is
	// ready for its model and role.
	defaultGrace = 30 * time.Second
	// leastDrain is how long a healthy worker without requests keeps its knowledge after its
	// source left it out: two answers of DNS, or a watch that is lost and begun again. Sources
	// leave workers out for a moment, and one after the other before none is left.
	leastDrain = 10 * time.Second
	// leavingInterval is the time between two checks of leaving workers: nothing signals the
	// end of their requests.
	leavingInterval = 100 * time.Millisecond
)

// Config holds a manager's settings; zero fields take the defaults.
type Config struct {
	Drain time.Duration // for requests of workers that leave; default 30 s
	Grace time.Duration // see defaultGrace; default 30 s
	// Networks are checked where an operator adds a worker by its address; dials check names.
	Networks worker.Networks
	Log      *slog.Logger
}

// Manager keeps the registry equal to the workers that sources name. A worker that left its
// sources is drained, and removed once it has nothing in flight or the drain times out; a
// worker that is named again meanwhile stays, and one that discovery left out has leastDrain for
// it. A source that has not answered yet removes no worker, and a source that fails keeps its last
// answer. One that names no worker that answers is in doubt, and removes none that does: sources
// fail more often than all workers at once, the workers of a cluster that is scaled to zero stop
// answering, and replacements may still load their model.
type Manager struct {
	registry *worker.Registry
	marker   Marker // nil: there is no cluster
	log      *slog.Logger
	wake     chan struct{}  // capacity 1: Run must reconcile
	running  sync.WaitGroup // sources and removals

	mu      sync.Mutex
	cfg     Config
	ctx     context.Context        // of the sources; nil before Start and after Run
	sources []*sourceState         // in order of precedence
	added   map[string]worker.Spec // by operators
	// Workers that operators removed, and since when no source names them; zero: some does.
	banned   map[string]time.Time
	members  map[string]*member // by URL
	removing map[string]bool    // by URL: its cache is being forgotten
	// Of the cluster, or the cordons of this router alone; by target.
	marks   map[string]cluster.Mark
	drained map[string]bool // by operators, at this router alone; by URL
}

// sourceState is one source and its last answer.
type sourceState struct {
	source   discover.Source
	stop     context.CancelFunc
	answered bool
	retired  bool // taken out of the configuration
	specs    []worker.Spec
	at       time.Time // of the answer
	doubted  time.Time // when it last named no worker that answers
	failed   error     // for good
}

// member is a worker that the manager added to the registry.
type member struct {
	w       *worker.Worker
	spec    worker.Spec
	sources []*sourceState // that named it last; none: operators did
	left    time.Time      // since when no source names it; zero: some source does
	drained time.Time      // since when it gets no new request for that
	held    string         // why it stays in use although it left
	removed bool           // by an operator: nothing holds it
}

// NewManager returns a manager of the workers in registry. marker is the cluster that keeps drain
// and cordon marks; nil: there is no cluster.
func NewManager(registry *worker.Registry, marker Marker, cfg Config) *Manager {
	m := &Manager{
		registry: registry, log: cfg.Log, wake: make(chan struct{}, 1), marker: marker,
		added: map[string]worker.Spec{}, banned: map[string]time.Time{}, members: map[string]*member{}, removing: map[string]bool{},
		drained: map[string]bool{},
	}
	m.Configure(cfg)
	return m
}

// Configure changes the settings.
func (m *Manager) Configure(cfg Config) {
	m.mu.Lock()
	defer m.mu.Unlock()
	cfg.Drain = cmp.Or(cfg.Drain, defaultDrain)
	cfg.Grace = cmp.Or(cfg.Grace, defaultGrace)
	m.cfg = cfg
}

// SetSources replaces the sources, in order of precedence. A source with a known name goes on
// with its state; only a discover.Static takes over new workers.
func (m *Manager) SetSources(sources []discover.Source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.sources
	m.sources = nil
	for _, s := range sources {
		i := slices.IndexFunc(old, func(f *sourceState) bool { return f.source.Name() == s.Name() })
		if i < 0 {
			f := &sourceState{source: s}
			m.startLocked(f)
			m.sources = append(m.sources, f)
			continue
		}
		f := old[i]
		old = slices.Delete(slices.Clone(old), i, i+1)
		if static, fixed := s.(discover.Static); fixed {
			f.source = s
			f.set(static.Specs, time.Now())
		}
		m.sources = append(m.sources, f)
	}
	for _, f := range old {
		f.retired = true
		if f.stop != nil {
			f.stop()
		}
	}
	m.reconcileNowLocked()
}

// startLocked begins to follow a source; before Start it only reads a static one.
func (m *Manager) startLocked(f *sourceState) {
	if static, fixed := f.source.(discover.Static); fixed {
		f.set(static.Specs, time.Now())
		return
	}
	if m.ctx == nil {
		return
	}
	ctx, stop := context.WithCancel(m.ctx)
	f.stop = stop
	m.running.Go(func() {
		err := f.source.Run(ctx, func(specs []worker.Spec) { m.receive(f, specs) })
		if err != nil && ctx.Err() == nil {
			m.log.Error("source has failed for good; its last workers stay", "source", f.source.Name(), "error", err)
			m.mu.Lock()
			defer m.mu.Unlock()
			f.failed = err
		}
	})
}

// receive takes in an answer of a source.
func (m *Manager) receive(f *sourceState, specs []worker.Spec) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.retired || m.ctx == nil {
		return
	}
	had := len(f.specs)
	f.set(specs, time.Now())
	switch {
	case had > 0 && len(f.specs) == 0:
		m.log.Warn("source names no worker any more: those that answer stay in use until it names one that does, or an operator removes them",
			"source", f.source.Name(), "workers", had)
	case had == 0 && len(f.specs) > 0:
		m.log.Info("source names workers", "source", f.source.Name(), "workers", len(f.specs))
	}
	m.reconcileNowLocked()
}

// set stores an answer in normal form. Sources have logged specs that are no worker.
func (f *sourceState) set(specs []worker.Spec, now time.Time) {
	f.specs = nil
	for _, s := range specs {
		if s, err := s.Normal(); err == nil {
			f.specs = append(f.specs, s)
		}
	}
	f.answered, f.at = true, now
}

// static reports whether the source is a list of the configuration, of which every change is meant.
func (f *sourceState) static() bool {
	_, is := f.source.(discover.Static)
	return is
}

// Start adds the workers of static sources and begins to follow the others, until ctx ends. Run
// must follow.
func (m *Manager) Start(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ctx = ctx
	for _, f := range m.sources {
		m.startLocked(f)
	}
	m.reconcileNowLocked()
}

// Run reconciles until ctx ends, and returns when the sources have ended.
func (m *Manager) Run(ctx context.Context) error {
	tick := time.NewTicker(leavingInterval)
	defer tick.Stop()
	for leaving := true; ; {
		due := tick.C
		if !leaving {
			due = nil
		}
		select {
		case <-ctx.Done():
			m.mu.Lock()
			m.ctx = nil //nolint:fatcontext // nothing is nested: no source begins any more
			m.mu.Unlock()
			m.running.Wait()
			return nil
		case <-due:
		case <-m.wake:
		}
		m.mu.Lock()
		leaving = m.reconcileLocked(time.Now())
		m.mu.Unlock()
	}
}

// Add adds an operator's worker, which stays until an operator removes it.
func (m *Manager) Add(spec worker.Spec) error {
	spec, err := spec.Normal()
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.cfg.Networks.CheckSpec(spec); err != nil {
		return err
	}
	if m.ctx == nil {
		return fmt.Errorf("cannot add worker %s: %w", spec.URL, worker.ErrClosed)
	}
	_, known := m.added[spec.URL]
	if t := m.members[spec.URL]; known || (t != nil && t.left.IsZero()) {
		return fmt.Errorf("cannot add worker %s: %w", spec.URL, worker.ErrDuplicate)
	}
	delete(m.banned, spec.URL)
	m.added[spec.URL] = spec
	m.reconcileNowLocked()
	return nil
}

// Removal is the effect of Remove.
type Removal struct {
	InFlight int64    // the worker's requests
	NamedBy  []string // sources that name it all the same: it comes back after a restart
}

// Remove removes a worker for an operator, although sources may name it: it stays out until no
// source has named it for leastDrain, or until Add. It is drained first unless atOnce is set.
func (m *Manager) Remove(url string, atOnce bool) (Removal, error) {
	spec, err := worker.Spec{URL: url}.Normal()
	if err != nil {
		return Removal{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.members[spec.URL]
	// It may wait for the end of an earlier removal.
	if m.ctx == nil || t == nil && m.desiredLocked(time.Now())[spec.URL] == nil {
		return Removal{}, fmt.Errorf("cannot remove worker %s: %w", secrets.MaskURL(spec.URL), worker.ErrUnknown)
	}
	delete(m.added, spec.URL)
	m.banned[spec.URL] = time.Time{}
	var done Removal
	if t != nil {
		t.removed = true
		if atOnce {
			m.removeLocked(t)
		}
		done.InFlight = t.w.InFlight()
	}
	m.reconcileNowLocked()
	delete(m.drained, spec.URL) // by now it is leaving
	for _, f := range m.sources {
		if f.names(spec.URL) {
			done.NamedBy = append(done.NamedBy, f.source.Name())
		}
	}
	return done, nil
}

// closing reports whether the registry refused a worker because the router stops.
func closing(err error) bool { return errors.Is(err, worker.ErrClosed) }
