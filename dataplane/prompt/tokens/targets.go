package tokens

import (
	"errors"
	"sync"
	"time"
)

// targets remembers workers that are not asked for a while. Only misses read it, so one lock
// suffices.
type targets struct {
	now            func() time.Time
	recheck, pause time.Duration
	pauseAfter     int

	mu    sync.Mutex
	state map[string]targetState // guarded by mu; only workers with failures
}

// targetState is the recent failures of a worker.
type targetState struct {
	until  time.Time // not to be asked before
	reason error
	fails  int // in a row
}

func (t *targets) init(cfg Config) {
	t.now, t.recheck = cfg.Now, cfg.RecheckAfter
	t.pause, t.pauseAfter = cfg.Pause, cfg.PauseAfter
	t.state = make(map[string]targetState)
}

// check returns the reason not to ask a worker now.
func (t *targets) check(target string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	st, ok := t.state[target]
	if !ok || !t.now().Before(st.until) {
		return nil
	}
	return st.reason
}

// noteResult notes the result of a fetch. A refused prompt counts as an answer.
func (t *targets) noteResult(target string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil, errors.Is(err, errRefused):
		delete(t.state, target)
	case errors.Is(err, ErrUnsupported):
		t.state[target] = targetState{until: t.now().Add(t.recheck), reason: ErrUnsupported}
	default:
		st := t.state[target]
		if st.fails++; st.fails >= t.pauseAfter {
			st.until, st.reason = t.now().Add(t.pause), ErrPaused
		}
		t.state[target] = st
	}
}
