package replay

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/bench/trace"
)

// User is one client of a closed loop: it plays one session after the other. A session begins when
// all turns of the one before are answered.
type User struct {
	Begin    time.Duration // of its first session, since the replay's begin
	Sessions [][]Turn
}

// Turn is one request of a session.
type Turn struct {
	// After is an earlier turn, whose answer the turn follows after Wait; -1: the session's begin.
	After   int
	Wait    time.Duration
	Request func() trace.Request
	Session string // name of the session
}

// Window is the time of a closed loop: the turns that come within For after Warmup are measured,
// and later ones do not come.
type Window struct{ Warmup, For time.Duration }

// RunUsers plays the sessions of users against the server at base, or by chance several servers, as
// [Run] does, and returns when the last turn of the window is answered. An error is one of the
// configuration or of ctx; failed requests are counted in the result, and the session goes on.
func RunUsers(ctx context.Context, base string, users []User, w Window, cfg Config) (*Result, error) {
	if w.Warmup < 0 || w.For <= 0 || len(users) == 0 {
		return nil, fmt.Errorf("cannot play %d users for %v after %v: %w", len(users), w.For, w.Warmup, ErrConfig)
	}
	for _, u := range users {
		for _, turns := range u.Sessions {
			for i := range turns {
				if turns[i].After >= i || turns[i].After < -1 {
					return nil, fmt.Errorf("cannot play turn %d: %w: it follows turn %d", i, ErrConfig, turns[i].After)
				}
			}
		}
	}
	r, err := newRun(base, cfg)
	if err != nil {
		return nil, err
	}
	defer r.close()
	l := &loop{run: r, ctx: ctx, began: time.Now()}
	l.warm, l.end = l.began.Add(l.real(w.Warmup)), l.began.Add(l.real(w.Warmup+w.For))
	var playing sync.WaitGroup
	for i := range users {
		playing.Go(func() { l.user(&users[i]) })
	}
	playing.Wait()
	r.result.finish(time.Since(l.began))
	return &r.result, context.Cause(ctx)
}

// loop is a closed loop under way.
type loop struct {
	*run
	ctx              context.Context //nolint:containedctx // Lives as long as the call of RunUsers.
	began, warm, end time.Time
}

// real is the time that a time of the sessions takes.
func (l *loop) real(d time.Duration) time.Duration {
	return time.Duration(float64(d) / l.cfg.TimeScale)
}

// user plays sessions until the end.
func (l *loop) user(u *User) {
	if !l.pause(l.began.Add(l.real(u.Begin))) {
		return
	}
	for _, turns := range u.Sessions {
		s := &played{loop: l, turns: turns, next: make([][]int, len(turns)+1)}
		for i := range turns {
			s.next[turns[i].After+1] = append(s.next[turns[i].After+1], i)
		}
		s.follow(-1, time.Now())
		s.playing.Wait()
		if s.over.Load() {
			return
		}
	}
}

// pause waits until due; false: that is after the end.
func (l *loop) pause(due time.Time) bool {
	if !due.Before(l.end) {
		return false
	}
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// played is a session under way.
type played struct {
	*loop
	turns   []Turn
	next    [][]int // of each turn but one, the turns that follow it; first those of the begin
	playing sync.WaitGroup
	over    atomic.Bool // a turn is due after the end
}

// follow plays the turns that follow turn i, which was answered at at.
func (s *played) follow(i int, at time.Time) {
	for _, k := range s.next[i+1] {
		s.playing.Go(func() {
			t := &s.turns[k]
			due := at.Add(s.real(t.Wait))
			if !s.pause(due) {
				s.over.Store(true)
				return
			}
			s.late(due)
			request := t.Request()
			s.send(s.ctx, &request, t.Session, !due.Before(s.warm))
			s.follow(k, time.Now())
		})
	}
}
