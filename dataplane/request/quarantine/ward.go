package quarantine

import (
	"cmp"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Config holds a ward's settings; zero fields take the defaults.
type Config struct {
	For  time.Duration // a request is refused; default 5 min
	Turn time.Duration // a suspect may take while others wait; default 500 ms
	Log  *slog.Logger
}

const (
	// remembered is how long a suspect is one after its last death: clients that send a request again after an
	// engine's restart do it within that.
	remembered = 10 * time.Minute
	// maxCases bounds memory: a case takes 200 bytes. An engine runs some hundred requests.
	maxCases = 1 << 14
	// deadly is how many engines one request may end.
	deadly = 2
	// cut is how many lost connections of workers that live are taken for deaths: a worker may restart
	// faster than it is asked.
	cut = 3
	// echoes is how long after a death its other requests tell of it.
	echoes = 5 * time.Second
)

// Ward is the quarantine of one router.
type Ward struct {
	cfg     Config
	active  atomic.Int64 // cases
	trying  atomic.Int64 // workers with a suspect on trial
	Refused atomic.Uint64
	Caught  atomic.Uint64 // requests found to end engines
	Deaths  atomic.Uint64 // of engines with suspects

	mu      sync.Mutex
	cases   map[uint64]*record   // by digest; guarded by mu
	trials  map[string]*Turn     // by worker; guarded by mu
	blamed  map[string]time.Time // workers whose last death has its cause; guarded by mu
	changed chan struct{}        // closed when a turn ends; guarded by mu
	left    []left               // guarded by mu
	oldest  int                  // of left, once it is full; guarded by mu
}

// record is what is known of one request.
type record struct {
	deaths  int       // of engines with it in flight
	cuts    int       // connections lost of workers that lived
	late    bool      // of the deaths, one more is forgiven: the engine had computed it for long
	likely  bool      // it needs a turn
	flying  *Turn     // its turn, until its answer has ended or failed
	refused time.Time // until then
	last    time.Time // death or cut
	worker  string    // of the last death
}

// Turn is a suspect's time alone on a worker.
type Turn struct {
	w      *Ward
	key    uint64
	worker string
	began  time.Time
}

// New returns an empty ward.
func New(cfg Config) *Ward {
	cfg.For = cmp.Or(cfg.For, 5*time.Minute)
	cfg.Turn = cmp.Or(cfg.Turn, 500*time.Millisecond)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Ward{
		cfg: cfg, cases: map[uint64]*record{}, trials: map[string]*Turn{}, blamed: map[string]time.Time{}, changed: make(chan struct{}),
	}
}

// Active reports whether there is any case: only then a request need be named.
func (w *Ward) Active() bool { return w.active.Load() > 0 }

// Trying reports whether a suspect is on trial anywhere.
func (w *Ward) Trying() bool { return w.trying.Load() > 0 }

// Status is what a request is to the ward.
type Status struct {
	Suspect bool          // it needs a turn
	Refused time.Duration // from now on; 0: it is not
	Deaths  int           // of engines with it in flight
}

// Look returns what is known of a request.
func (w *Ward) Look(key uint64, now time.Time) Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.caseLocked(key, now)
	if r == nil {
		return Status{}
	}
	if left := r.refused.Sub(now); left > 0 {
		w.Refused.Add(1)
		return Status{Refused: left, Deaths: max(r.deaths, deadly)}
	}
	return Status{Suspect: r.likely, Deaths: r.deaths}
}

// caseLocked returns a case that still counts. Of one whose time of refusal is over a death is forgiven, so
// that one more engine shows whether it still ends them.
func (w *Ward) caseLocked(key uint64, now time.Time) *record {
	r := w.cases[key]
	switch {
	case r == nil:
		return nil
	case now.Sub(r.last) > max(remembered, 2*w.cfg.For):
		w.dropLocked(key)
		return nil
	case !r.refused.IsZero() && !now.Before(r.refused):
		r.refused, r.deaths, r.cuts, r.likely, r.late = time.Time{}, deadly-1, 0, true, true
	}
	return r
}

// Clear ends a case: the request was answered.
func (w *Ward) Clear(key uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.cases[key]; r != nil && r.refused.IsZero() {
		w.dropLocked(key)
		w.wakeLocked()
	}
}

func (w *Ward) dropLocked(key uint64) {
	delete(w.cases, key)
	w.active.Store(int64(len(w.cases)))
}

// Loss is an attempt that ended because the connection to its worker did.
type Loss struct {
	Key    uint64
	Worker string
	Died   bool // the worker is gone, and not only the connection
	Likely bool // the engine had only begun with it
	At     time.Time
	Alive  time.Time // the worker was, for the last time
	Turn   *Turn     // in which it was lost, nil without one
}

// Lost takes in a loss and reports whether the request may be tried again.
func (w *Ward) Lost(l Loss) (again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.caseLocked(l.Key, l.At)
	if r != nil && l.Turn != nil && r.flying == l.Turn {
		r.flying = nil
	}
	// A turn may have passed to the next suspect by time; who has it now is the cause.
	holder := w.trials[l.Worker]
	mine := l.Turn != nil && holder == l.Turn
	others := !mine && (holder != nil || l.At.Sub(w.blamed[l.Worker]) < echoes)
	if mine {
		w.endLocked(l.Turn)
	}
	if r != nil && l.Died && r.echoes(&l, mine) {
		return r.refused.IsZero()
	}
	if mine && l.Died {
		w.blameLocked(l.Worker, l.At)
	}
	if others && (r != nil || !l.Likely) {
		return r == nil || r.refused.IsZero()
	}
	if r == nil {
		r = w.openLocked(l.Key, l.At)
	}
	r.last, r.likely = l.At, r.likely || l.Likely
	switch {
	case l.Died && !mine && !l.Likely && r.deaths == deadly-1 && !r.late:
		// Two engines had computed it for long: a restart of one after the other ends such requests
		// too. It is tried in a turn once more.
		r.late, r.likely, r.worker = true, true, l.Worker
		w.Deaths.Add(1)
		return true
	case l.Died:
		r.deaths++
		r.worker = l.Worker
		w.Deaths.Add(1)
	default:
		r.cuts++
	}
	if r.deaths < deadly && r.deaths+r.cuts < cut {
		return true
	}
	w.refuseLocked(r, l.Key, l.Worker, l.At)
	return false
}

// openLocked begins a case.
func (w *Ward) openLocked(key uint64, now time.Time) *record {
	if len(w.cases) >= maxCases {
		w.sweepLocked(now)
	}
	r := &record{}
	w.cases[key] = r
	w.active.Store(int64(len(w.cases)))
	return r
}

// refuseLocked has a request refused from now on.
func (w *Ward) refuseLocked(r *record, key uint64, worker string, now time.Time) {
	if r.refused.IsZero() {
		w.Caught.Add(1)
		w.cfg.Log.Warn("request ends engines and is refused", "digest", key, "worker", worker, "deaths", r.deaths, "for", w.cfg.For)
	}
	r.refused, r.likely = now.Add(w.cfg.For), true
	w.wakeLocked()
}

// echoes reports whether a death is one that was told of already: by an equal request, or because the worker has not been alive since.
func (r *record) echoes(l *Loss, mine bool) bool {
	if r.deaths == 0 || r.worker != l.Worker {
		return false
	}
	return !mine && l.At.Sub(r.last) < echoes || !l.Alive.After(r.last)
}

// blameLocked notes that a worker's death has its cause.
func (w *Ward) blameLocked(worker string, now time.Time) {
	for name, at := range w.blamed {
		if now.Sub(at) > echoes {
			delete(w.blamed, name)
		}
	}
	w.blamed[worker] = now
}

// sweepLocked makes room, a quarter at once: what is old goes, then what is neither refused nor on trial, then
// anything.
func (w *Ward) sweepLocked(now time.Time) {
	const enough = maxCases / 4 * 3
	for _, goes := range [...]func(*record) bool{
		func(r *record) bool { return now.Sub(r.last) > remembered },
		func(r *record) bool { return r.refused.IsZero() && r.flying == nil },
		func(*record) bool { return true },
	} {
		for key, r := range w.cases {
			if len(w.cases) <= enough {
				return
			}
			if goes(r) {
				delete(w.cases, key)
			}
		}
	}
}

// Cases returns how many requests are suspects or refused.
func (w *Ward) Cases() int64 { return w.active.Load() }
