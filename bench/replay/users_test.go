package replay_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/warmpath/warmpath/bench/replay"
	"github.com/warmpath/warmpath/bench/trace"
)

// course is a session of a main agent and a sub-agent: turn 3 follows turn 1.
var course = []struct {
	after int
	wait  time.Duration
}{{-1, 0}, {0, 4 * time.Second}, {0, time.Second}, {1, 2 * time.Second}, {2, 3 * time.Second}}

// crowd is users with three sessions each; a prompt's length tells which turn it is.
func crowd(n int) (users []replay.User) {
	for user := range n {
		u := replay.User{Begin: time.Duration(user) * time.Second}
		for session := range 3 {
			var turns []replay.Turn
			for i, step := range course {
				turns = append(turns, replay.Turn{
					After: step.after, Wait: step.wait, Session: fmt.Sprintf("u%d-s%d", user, session),
					Request: func() trace.Request {
						return trace.Request{Input: 100 + i, Output: 2, Block: 512, IDs: []uint64{uint64(user*10 + session)}}
					},
				})
			}
			u.Sessions = append(u.Sessions, turns)
		}
		users = append(users, u)
	}
	return users
}

// Every turn comes its pause after the answer that it follows and not before, and a session after
// the end of the one before.
func TestRunUsers(t *testing.T) {
	const scale = 200
	for field, api := range map[string]replay.API{"metadata.user_id": replay.APIMessages, "X-Session-ID": replay.APIGenerate} {
		f := newFake(t, func(n int) string { return [...]string{"", "", "", "", "status"}[n%5] })
		got, err := replay.RunUsers(t.Context(), f.URL, crowd(3), replay.Window{For: time.Hour}, replay.Config{API: api, TimeScale: scale, Session: field})
		if err != nil {
			t.Fatal(err)
		}
		if got.Requests != 45 || got.Errors != 9 || got.OutputTokens != 72 {
			t.Fatalf("%d requests, %d errors (%s), %d tokens", got.Requests, got.Errors, got.FirstError, got.OutputTokens)
		}
		came, answered := map[string]time.Time{}, map[string]time.Time{}
		for _, s := range f.seen {
			if s.answered.IsZero() { // refused: the answer came at once
				s.answered = s.came
			}
			key := fmt.Sprintf("%s-%d", s.session, s.tokens-100)
			came[key], answered[key] = s.came, s.answered
		}
		for user := range 3 {
			for session := range 3 {
				for i, step := range course {
					name := func(session, turn int) string { return fmt.Sprintf("u%d-s%d-%d", user, session, turn) }
					var after []string
					if step.after >= 0 {
						after = append(after, name(session, step.after))
					} else if session > 0 {
						after = append(after, name(session-1, 3), name(session-1, 4))
					}
					for _, other := range after {
						if gap := came[name(session, i)].Sub(answered[other]); gap < step.wait/scale {
							t.Errorf("%s comes %v after %s, want %v", name(session, i), gap, other, step.wait/scale)
						}
					}
				}
			}
		}
	}
}

// The warm-up is played and not measured, and nothing comes after the end.
func TestRunUsersMeasuresAWindow(t *testing.T) {
	f := newFake(t, nil)
	users := crowd(1) // turns at 0, 1, 4, 4 and 6 s, if answers take no time
	done := 0
	got, err := replay.RunUsers(t.Context(), f.URL, users, replay.Window{Warmup: time.Hour, For: time.Second}, replay.Config{
		API: replay.APIGenerate, TimeScale: 1000, Progress: func(n int) { done = n },
	})
	if err != nil || got.Requests != 0 || done != 15 || len(f.prompts) != 15 {
		t.Errorf("%v: %d requests measured of %d in the warm-up, want 0 of 15", err, got.Requests, done)
	}
	f = newFake(t, nil)
	users[0].Sessions[0][1].Wait = 2 * time.Hour
	got, err = replay.RunUsers(t.Context(), f.URL, users, replay.Window{For: time.Hour}, replay.Config{API: replay.APIGenerate, TimeScale: 1000})
	if err != nil || len(f.prompts) != 3 || got.Requests != 3 {
		t.Errorf("%v: %d requests, want 3: neither the turn after the end nor those behind it", err, got.Requests)
	}
}

func TestRunUsersRefuses(t *testing.T) {
	late := crowd(1)
	late[0].Sessions[0][1].After = 1
	for name, c := range map[string]struct {
		users []replay.User
		w     replay.Window
	}{
		"nobody":         {nil, replay.Window{For: time.Second}},
		"no time":        {crowd(1), replay.Window{}},
		"before the end": {crowd(1), replay.Window{Warmup: -1, For: time.Second}},
		"a later turn":   {late, replay.Window{For: time.Second}},
	} {
		if _, err := replay.RunUsers(t.Context(), "http://127.0.0.1:1", c.users, c.w, replay.Config{}); !errors.Is(err, replay.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
