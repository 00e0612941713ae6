package trace

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/valyala/fastjson"
)

// Session is one recorded session of an agent: the shape of its prompts and its times, without
// text.
type Session struct {
	Name  string
	Model string
	// Tools and System are the tokens of the tool definitions and of the system prompt, with
	// which every prompt of the session begins.
	Tools, System int
	Block         int // tokens of a block
	Turns         []Turn
}

// Turn is one request of a session.
type Turn struct {
	At     time.Duration // since the session's first turn
	Think  time.Duration // pause between the agent's last answer and this turn
	Served time.Duration // time that the recorded service took for the answer
	Input  int           // prompt tokens
	Output int           // tokens of the answer
	// Of is the turn with which the prompt has its first Keep blocks in common; -1: none.
	Of, Keep int
	Agent    int // number of the sub-agent; 0 is the main agent
}

// SessionBlock is the tokens of a block where a session does not say.
const SessionBlock = 64

// maxTurns bounds a session: the longest recorded one has 411 turns.
const maxTurns = 1 << 16

// ReadSessions reads one session a line; see the package's documentation for the format. limit
// > 0 bounds the sessions.
func ReadSessions(r io.Reader, limit int) ([]Session, error) {
	var sessions []Session
	err := readLines(r, func(v *fastjson.Value) (more bool, err error) {
		s, err := parseSession(v)
		if err != nil {
			return false, err
		}
		sessions = append(sessions, s)
		return len(sessions) != limit, nil
	})
	if err != nil {
		return nil, err
	}
	if len(sessions) == 0 {
		return nil, fmt.Errorf("cannot read the sessions: %w: there is none", ErrTrace)
	}
	return sessions, nil
}

func parseSession(v *fastjson.Value) (Session, error) {
	s := Session{Name: string(v.GetStringBytes("session")), Model: string(v.GetStringBytes("model")), Block: SessionBlock}
	for _, f := range [...]struct {
		name string
		into *int
	}{{"tools", &s.Tools}, {"system", &s.System}, {"block_size", &s.Block}} {
		if field := v.Get(f.name); field == nil || field.Type() == fastjson.TypeNull {
			continue
		}
		if err := natural(v, f.name, MaxTokens, f.into); err != nil {
			return s, err
		}
	}
	turns := v.GetArray("turns")
	switch {
	case len(turns) == 0 || len(turns) > maxTurns:
		return s, fmt.Errorf("%d turns, want 1 to %d", len(turns), maxTurns)
	case s.Block == 0:
		return s, errors.New("block_size is 0")
	}
	s.Turns = make([]Turn, len(turns))
	for i, turn := range turns {
		if err := s.parseTurn(i, turn); err != nil {
			return s, fmt.Errorf("turns[%d]: %w", i, err)
		}
	}
	return s, nil
}

// parseTurn reads turn i and checks it against those before.
func (s *Session) parseTurn(i int, v *fastjson.Value) error {
	t := &s.Turns[i]
	t.Of = -1
	for _, f := range [...]struct {
		name     string
		into     *time.Duration
		optional bool
	}{{"t", &t.At, false}, {"think", &t.Think, false}, {"api", &t.Served, true}} {
		if f.optional && !v.Exists(f.name) {
			continue
		}
		if err := duration(v, f.name, f.into); err != nil {
			return err
		}
	}
	for _, f := range [...]struct {
		name     string
		into     *int
		optional bool
	}{{"input", &t.Input, false}, {"output", &t.Output, false}, {"keep", &t.Keep, true}, {"agent", &t.Agent, true}} {
		if f.optional && !v.Exists(f.name) {
			continue
		}
		if err := natural(v, f.name, MaxTokens, f.into); err != nil {
			return err
		}
	}
	if of := v.Get("of"); of != nil {
		n, err := of.Int()
		if err != nil {
			return fmt.Errorf("of: %w", err)
		}
		t.Of = n
	}
	switch {
	case t.Input == 0:
		return errors.New("input is 0")
	case t.Of < -1 || t.Of >= i:
		return fmt.Errorf("of is %d, want an earlier turn or -1", t.Of)
	case i > 0 && t.At < s.Turns[i-1].At:
		return fmt.Errorf("t is %v, before the turn before", t.At)
	case t.Of < 0:
		t.Keep = 0
	default:
		t.Keep = min(t.Keep, t.Input/s.Block, s.Turns[t.Of].Input/s.Block)
	}
	return nil
}

// duration reads a field of seconds that must be there.
func duration(v *fastjson.Value, name string, into *time.Duration) error {
	field := v.Get(name)
	if field == nil {
		return fmt.Errorf("no %s", name)
	}
	n, err := field.Float64()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if !(n >= 0 && n <= MaxSpan.Seconds()) {
		return fmt.Errorf("%s is %v, want 0 to %v seconds", name, n, MaxSpan.Seconds())
	}
	*into = time.Duration(n * float64(time.Second))
	return nil
}

// Step is the place of a turn in its session's course.
type Step struct {
	After int           // the turn whose answer it follows; -1: the session's begin
	Wait  time.Duration // after that answer, or after the session's begin
}

// Steps tells the course of a session. A turn follows the last answer of its own agent by the
// recorded pause; the first turn of a sub-agent follows the main agent's last answer before it.
// Pauses are at most longest.
func (s *Session) Steps(longest time.Duration) []Step {
	steps := make([]Step, len(s.Turns))
	last := map[int]int{} // turn of each agent
	for i := range s.Turns {
		t := &s.Turns[i]
		step := Step{After: -1, Wait: t.At}
		if of, ok := last[t.Agent]; ok {
			step = Step{After: of, Wait: t.Think}
		} else if of, ok := s.answeredBefore(i); ok {
			step = Step{After: of, Wait: max(t.At-s.Turns[of].At-s.Turns[of].Served, 0)}
		}
		step.Wait = min(step.Wait, longest)
		steps[i], last[t.Agent] = step, i
	}
	return steps
}

// answeredBefore finds the main agent's last turn that was answered before turn i. Recorded
// times are whole seconds.
func (s *Session) answeredBefore(i int) (of int, ok bool) {
	for k := i - 1; k >= 0; k-- {
		if t := &s.Turns[k]; t.Agent == 0 && t.At+t.Served <= s.Turns[i].At+time.Second && t.At < s.Turns[i].At {
			return k, true
		}
	}
	return 0, false
}
