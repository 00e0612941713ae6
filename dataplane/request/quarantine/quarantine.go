package quarantine

import (
	"cmp"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Config holds the settings of a quarantine; zero fields take the defaults.
type Config struct {
	For   time.Duration // for which a culprit is refused; default 5 min
	Trial time.Duration // for which a trial keeps other requests off a worker; default 500 ms
	Log   *slog.Logger
}

const (
	// suspectFor is how long a suspect stays one after its last death: clients that send a request
	// again after an engine's restart do it within that time.
	suspectFor = 10 * time.Minute
	// maxSuspects bounds memory: a suspect takes 200 bytes. An engine runs some hundred requests.
	maxSuspects = 1 << 14
	// maxDeaths is how many engines one request may end.
	maxDeaths = 2
	// maxCuts is how many lost connections to living workers count as a death: a worker may restart
	// faster than it is probed.
	maxCuts = 3
	// echoFor is how long after a death its other requests report it too.
	echoFor = 5 * time.Second
)

// Quarantine holds the suspects and culprits of one router.
type Quarantine struct {
	cfg    Config
	active atomic.Int64 // suspects and culprits
	trying atomic.Int64 // workers with a trial

	Refusals atomic.Uint64 // of culprits
	Culprits atomic.Uint64 // requests found to end engines
	Deaths   atomic.Uint64 // of engines, by suspect

	mu        sync.Mutex
	suspects  map[uint64]*suspect  // by digest; guarded by mu
	trials    map[string]*Trial    // by worker; guarded by mu
	explained map[string]time.Time // deaths of workers whose culprit is known; guarded by mu
	changed   chan struct{}        // closed when a trial ends; guarded by mu
	abandoned []abandoned          // guarded by mu
	oldest    int                  // of abandoned, once it is full; guarded by mu
}

// suspect is one request.
type suspect struct {
	deaths  int       // of engines with it in flight
	cuts    int       // connections lost to workers that lived
	late    bool      // one more death is forgiven: the engine had computed the request for long
	likely  bool      // it needs a trial
	trial   *Trial    // until its answer has ended or failed
	refused time.Time // end of its refusal; zero: it is no culprit
	last    time.Time // death or cut
	worker  string    // of the last death
}

// Trial is the time in which a worker has one suspect and no other requests that could go
// elsewhere.
type Trial struct {
	q      *Quarantine
	key    uint64
	worker string
	began  time.Time
}

// New returns an empty quarantine.
func New(cfg Config) *Quarantine {
	cfg.For = cmp.Or(cfg.For, 5*time.Minute)
	cfg.Trial = cmp.Or(cfg.Trial, 500*time.Millisecond)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Quarantine{
		cfg: cfg, suspects: map[uint64]*suspect{}, trials: map[string]*Trial{},
		explained: map[string]time.Time{}, changed: make(chan struct{}),
	}
}

// Active reports whether there is any suspect; only then does a request need a digest.
func (q *Quarantine) Active() bool { return q.active.Load() > 0 }

// Trying reports whether any worker has a trial.
func (q *Quarantine) Trying() bool { return q.trying.Load() > 0 }

// Suspects returns the number of suspects and culprits.
func (q *Quarantine) Suspects() int64 { return q.active.Load() }

// Status is the quarantine's verdict on a request.
type Status struct {
	Suspect bool          // it needs a trial
	Refused time.Duration // from now on; 0: it is no culprit
	Deaths  int           // of engines with it in flight
}

// Lookup returns the verdict on a request.
func (q *Quarantine) Lookup(key uint64, now time.Time) Status {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.suspectLocked(key, now)
	if s == nil {
		return Status{}
	}
	if remaining := s.refused.Sub(now); remaining > 0 {
		q.Refusals.Add(1)
		return Status{Refused: remaining, Deaths: max(s.deaths, maxDeaths)}
	}
	return Status{Suspect: s.likely, Deaths: s.deaths}
}

// suspectLocked returns a suspect that is not forgotten. When its refusal has ended one death is
// forgiven, so that one more engine shows whether the request still ends them.
func (q *Quarantine) suspectLocked(key uint64, now time.Time) *suspect {
	s := q.suspects[key]
	switch {
	case s == nil:
		return nil
	case now.Sub(s.last) > max(suspectFor, 2*q.cfg.For):
		q.dropLocked(key)
		return nil
	case !s.refused.IsZero() && !now.Before(s.refused):
		s.refused, s.deaths, s.cuts, s.likely, s.late = time.Time{}, maxDeaths-1, 0, true, true
	}
	return s
}

// Clear ends the suspicion: the request was answered.
func (q *Quarantine) Clear(key uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s := q.suspects[key]; s != nil && s.refused.IsZero() {
		q.dropLocked(key)
		q.wakeLocked()
	}
}

func (q *Quarantine) dropLocked(key uint64) {
	delete(q.suspects, key)
	q.active.Store(int64(len(q.suspects)))
}

// Loss is an attempt that ended because the connection to its worker did.
type Loss struct {
	Key    uint64
	Name   string // of the request, for the log
	Worker string
	Died   bool // the worker is gone, and not only the connection
	Likely bool // the engine had only begun to compute the request
	At     time.Time
	Alive  time.Time // last time that the worker was alive
	Trial  *Trial    // of the attempt, nil without one
}

// Lost takes in a loss and reports whether the request may be tried again.
func (q *Quarantine) Lost(l Loss) (again bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.suspectLocked(l.Key, l.At)
	if s != nil && l.Trial != nil && s.trial == l.Trial {
		s.trial = nil
	}
	// The worker may have passed to the next suspect by time: then that one is the cause.
	current := q.trials[l.Worker]
	own := l.Trial != nil && current == l.Trial
	otherCause := !own && (current != nil || l.At.Sub(q.explained[l.Worker]) < echoFor)
	if own {
		q.endLocked(l.Trial)
	}
	if s != nil && l.Died && s.knows(&l, own) {
		return s.refused.IsZero()
	}
	if own && l.Died {
		q.explainLocked(l.Worker, l.At)
	}
	if otherCause && (s != nil || !l.Likely) {
		return s == nil || s.refused.IsZero()
	}
	if s == nil {
		s = q.addLocked(l.Key, l.At)
	}
	s.last, s.likely = l.At, s.likely || l.Likely
	switch {
	case l.Died && !own && !l.Likely && s.deaths == maxDeaths-1 && !s.late:
		// Two engines had computed the request for long: a rolling restart ends such requests too.
		// It gets a trial once more.
		s.late, s.likely, s.worker = true, true, l.Worker
		q.Deaths.Add(1)
		return true
	case l.Died:
		s.deaths++
		s.worker = l.Worker
		q.Deaths.Add(1)
	default:
		s.cuts++
	}
	if s.deaths < maxDeaths && s.deaths+s.cuts < maxCuts {
		return true
	}
	q.refuseLocked(s, l.Key, l.Name, l.Worker, l.At)
	return false
}

// addLocked adds a suspect.
func (q *Quarantine) addLocked(key uint64, now time.Time) *suspect {
	if len(q.suspects) >= maxSuspects {
		q.sweepLocked(now)
	}
	s := &suspect{}
	q.suspects[key] = s
	q.active.Store(int64(len(q.suspects)))
	return s
}

// refuseLocked makes a suspect a culprit. name is that of its last request.
func (q *Quarantine) refuseLocked(s *suspect, key uint64, name, worker string, now time.Time) {
	if s.refused.IsZero() {
		q.Culprits.Add(1)
		q.cfg.Log.Warn("request ends engines and is refused", "request_id", name, "digest", key, "worker", worker, "deaths", s.deaths, "for", q.cfg.For)
	}
	s.refused, s.likely = now.Add(q.cfg.For), true
	q.wakeLocked()
}

// knows reports whether a death is counted already: an equal request has reported it, or the worker
// has not been alive since.
func (s *suspect) knows(l *Loss, own bool) bool {
	if s.deaths == 0 || s.worker != l.Worker {
		return false
	}
	return !own && l.At.Sub(s.last) < echoFor || !l.Alive.After(s.last)
}

// explainLocked notes that the culprit of a worker's death is known.
func (q *Quarantine) explainLocked(worker string, now time.Time) {
	for name, at := range q.explained {
		if now.Sub(at) > echoFor {
			delete(q.explained, name)
		}
	}
	q.explained[worker] = now
}

// sweepLocked frees a quarter of the room: first old suspects, then all that are neither refused
// nor on trial, then any.
func (q *Quarantine) sweepLocked(now time.Time) {
	const enough = maxSuspects / 4 * 3
	for _, goes := range [...]func(*suspect) bool{
		func(s *suspect) bool { return now.Sub(s.last) > suspectFor },
		func(s *suspect) bool { return s.refused.IsZero() && s.trial == nil },
		func(*suspect) bool { return true },
	} {
		for key, s := range q.suspects {
			if len(q.suspects) <= enough {
				return
			}
			if goes(s) {
				delete(q.suspects, key)
			}
		}
	}
}
