package router

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
)

const (
	// keeperGrace is for how long workers that answer are used on where their source suddenly names nobody, or while nobody
	// else does what they do: what names workers fails more often than all workers at once, and those that come instead
	// may still load their model. The cost is 30 s of requests to workers that are meant to go.
	keeperGrace = 30 * time.Second
	// keeperTick is how often leaving workers are looked at, whose requests end unheard.
	keeperTick = 100 * time.Millisecond
)

// keeperConfig holds a keeper's settings; zero fields take the defaults.
type keeperConfig struct {
	Drain time.Duration // for requests of workers that leave; default 30 s
	Grace time.Duration // default keeperGrace
	Log   *slog.Logger
}

// keeper makes the registry have the workers that sources name, and takes those away that none names any more, without
// losing a request. A worker that left is drained, and removed when it has nothing in flight or after the drain's time;
// one that comes back meanwhile is used again. A source that has told nothing yet removes nobody, and one that cannot look
// keeps what it told last.
//
// mu guards everything but settings that are fixed, and is taken by sources, by operators and by the tick; registry.mu is taken
// under it. Nobody waits under it: caches are forgotten by goroutines of their own, for which Run waits.
type keeper struct {
	registry *worker.Registry
	marker   marker // nil: the router is of no cluster; fixed
	log      *slog.Logger
	kick     chan struct{}  // capacity 1: there is something to look at
	running  sync.WaitGroup // sources and removals

	mu       sync.Mutex
	cfg      keeperConfig
	ctx      context.Context         // of the sources; nil before start and after Run
	feeds    []*feed                 // those that come first count more
	own      map[string]worker.Spec  // what operators added
	refused  map[string]bool         // what operators removed although a source names it
	kept     map[string]*tenant      // by URL
	removing map[string]bool         // by URL: being forgotten
	marks    map[string]cluster.Mark // what operators want in the whole cluster, by target
}

// feed is one source with what it told last.
type feed struct {
	source   discover.Source
	stop     context.CancelFunc
	answered bool
	gone     bool // taken out of the configuration
	specs    []worker.Spec
	at       time.Time // when it told them
	lost     time.Time // since when it names nobody after it named somebody; zero: it names somebody
	failed   error     // for good
}

// tenant is a worker in the keeper's care.
type tenant struct {
	w       *worker.Worker
	spec    worker.Spec
	feeds   []*feed   // that named it last; none: operators did
	left    time.Time // since when nobody names it; zero: somebody does
	drained time.Time // since when it gets nothing new for that
	held    string    // why it is used on although it left
	now     bool      // an operator removed it: nothing holds it
}

func newKeeper(registry *worker.Registry, cfg keeperConfig) *keeper {
	k := &keeper{
		registry: registry, log: cfg.Log, kick: make(chan struct{}, 1),
		own: map[string]worker.Spec{}, refused: map[string]bool{}, kept: map[string]*tenant{}, removing: map[string]bool{},
	}
	k.configure(cfg)
	return k
}

// configure changes the settings.
func (k *keeper) configure(cfg keeperConfig) {
	k.mu.Lock()
	defer k.mu.Unlock()
	cfg.Drain = cmp.Or(cfg.Drain, 30*time.Second)
	cfg.Grace = cmp.Or(cfg.Grace, keeperGrace)
	k.cfg = cfg
}

// use makes these the sources, of which the first count most. One whose name is there already goes on; it is another one only
// where it is a discover.Static.
func (k *keeper) use(sources []discover.Source) {
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.feeds
	k.feeds = nil
	for _, s := range sources {
		i := slices.IndexFunc(old, func(f *feed) bool { return f.source.Name() == s.Name() })
		if i < 0 {
			f := &feed{source: s}
			k.startLocked(f)
			k.feeds = append(k.feeds, f)
			continue
		}
		f := old[i]
		old = slices.Delete(slices.Clone(old), i, i+1)
		if static, fixed := s.(discover.Static); fixed {
			f.source = s
			f.tell(static.Specs, time.Now())
		}
		k.feeds = append(k.feeds, f)
	}
	for _, f := range old {
		f.gone = true
		if f.stop != nil {
			f.stop()
		}
	}
	k.lookLocked()
}

// startLocked begins to listen to a source; before start it does not.
func (k *keeper) startLocked(f *feed) {
	if static, fixed := f.source.(discover.Static); fixed { // which need not be waited for
		f.tell(static.Specs, time.Now())
		return
	}
	if k.ctx == nil {
		return
	}
	ctx, stop := context.WithCancel(k.ctx)
	f.stop = stop
	k.running.Go(func() {
		err := f.source.Run(ctx, func(specs []worker.Spec) { k.told(f, specs) })
		if err != nil && ctx.Err() == nil {
			k.log.Error("workers are not discovered any more; those that are known stay", "source", f.source.Name(), "error", err)
			k.mu.Lock()
			defer k.mu.Unlock()
			f.failed = err
		}
	})
}

// told takes in what a source says.
func (k *keeper) told(f *feed, specs []worker.Spec) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f.gone || k.ctx == nil {
		return
	}
	before := f.lost
	f.tell(specs, time.Now())
	if before.IsZero() && !f.lost.IsZero() {
		k.log.Warn("a source names no worker any more; those that answer are used a while longer", "source", f.source.Name(), "for", k.cfg.Grace)
	}
	k.lookLocked()
}

// tell keeps a set in the form that the registry has. What cannot be a worker is left out: sources have said so.
func (f *feed) tell(specs []worker.Spec, now time.Time) {
	had := len(f.specs) > 0
	f.specs = nil
	for _, s := range specs {
		if s, err := s.Normal(); err == nil {
			f.specs = append(f.specs, s)
		}
	}
	_, fixed := f.source.(discover.Static) // whoever empties a list of flags means it
	switch {
	case len(f.specs) > 0:
		f.lost = time.Time{}
	case had && !fixed:
		f.lost = now
	}
	f.answered, f.at = true, now
}

// start adds the workers that need no asking and begins to listen to the sources, until ctx ends. Run must follow.
func (k *keeper) start(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ctx = ctx
	for _, f := range k.feeds {
		k.startLocked(f)
	}
	k.lookLocked()
}

// Run goes on with what start began until ctx ends, and returns when the sources have ended.
func (k *keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(keeperTick)
	defer tick.Stop()
	for busy := true; ; {
		due := tick.C
		if !busy {
			due = nil
		}
		select {
		case <-ctx.Done():
			k.mu.Lock()
			k.ctx = nil //nolint:fatcontext // nothing is nested: no source begins any more
			k.mu.Unlock()
			k.running.Wait()
			return nil
		case <-due:
		case <-k.kick:
		}
		k.mu.Lock()
		busy = k.reconcileLocked(time.Now())
		k.mu.Unlock()
	}
}

// Add is an operator's worker, which stays whatever the sources name.
func (k *keeper) Add(spec worker.Spec) error {
	spec, err := spec.Normal()
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx == nil {
		return fmt.Errorf("cannot add worker %s: %w", spec.URL, worker.ErrClosed)
	}
	_, owned := k.own[spec.URL]
	if t := k.kept[spec.URL]; owned || (t != nil && t.left.IsZero()) {
		return fmt.Errorf("cannot add worker %s: %w", spec.URL, worker.ErrDuplicate)
	}
	delete(k.refused, spec.URL)
	k.own[spec.URL] = spec
	k.lookLocked()
	return nil
}

// Remove is an operator's wish that a worker goes, though sources may name it: it is refused until they do not, or until it is
// added. It is drained first unless at once is wanted. inFlight is what it still has.
func (k *keeper) Remove(url string, atOnce bool) (inFlight int64, err error) {
	spec, err := worker.Spec{URL: url}.Normal()
	if err != nil {
		return 0, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.kept[spec.URL]
	if t == nil || k.ctx == nil {
		return 0, fmt.Errorf("cannot remove worker %s: %w", spec.URL, worker.ErrUnknown)
	}
	delete(k.own, spec.URL)
	k.refused[spec.URL], t.now = true, true
	if atOnce {
		k.removeLocked(t)
	}
	k.lookLocked()
	return t.w.InFlight(), nil
}

// errClosing is no news at shutdown.
func closing(err error) bool { return errors.Is(err, worker.ErrClosed) }
