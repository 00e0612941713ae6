package policies

import (
	"math/rand/v2"
	"time"

	"github.com/warmpath/warmpath/bench/trace"
)

// Play says how recorded sessions are played; the zero value of a field stands for its default.
type Play struct {
	// MaxThink is the longest pause between an answer and the next turn; default 5 min. 5 % of
	// the recorded pauses are longer, up to a night.
	MaxThink time.Duration `json:"max_think"`
	// MaxPrompt leaves out longer turns; default 200,000 tokens, the context of most models.
	MaxPrompt int `json:"max_prompt"`
	// Share lets sessions of equal model, tools and system prompt begin with the same blocks.
	Share bool `json:"share"`
}

func (p Play) withDefaults() Play {
	or(&p.MaxThink, 5*time.Minute)
	or(&p.MaxPrompt, 200_000)
	return p
}

// sharedBit marks ids of blocks that sessions share.
const sharedBit = 1 << 62

// script is a session ready to be played: the turns that are short enough, with their course.
type script struct {
	turns  []trace.Turn
	of     []int // of each turn, its place in the session
	steps  []trace.Step
	starts []time.Duration // at the recorded service's pace
	length time.Duration   // the same, to the last answer
	whole  *trace.Session
	shared uint64 // id of the blocks that it shares with other sessions; 0: none
}

// newScripts prepares sessions. Those of which no turn is short enough are left out.
func newScripts(sessions []trace.Session, p Play) (out []*script) {
	type group struct {
		model         string
		tools, system int
	}
	groups := map[group]uint64{}
	for i := range sessions {
		s := &script{whole: &sessions[i]}
		for k, t := range sessions[i].Turns {
			if t.Input <= p.MaxPrompt {
				s.turns, s.of = append(s.turns, t), append(s.of, k)
			}
		}
		if len(s.turns) == 0 {
			continue
		}
		s.steps = (&trace.Session{Turns: s.turns}).Steps(p.MaxThink)
		for k, step := range s.steps {
			start := step.Wait
			if step.After >= 0 {
				start += s.starts[step.After] + s.turns[step.After].Served
			}
			s.starts = append(s.starts, start)
			s.length = max(s.length, start+s.turns[k].Served)
		}
		if g := (group{s.whole.Model, s.whole.Tools, s.whole.System}); p.Share && g.tools+g.system > 0 {
			if groups[g] == 0 {
				groups[g] = sharedBit | uint64(len(groups)+1)
			}
			s.shared = groups[g]
		}
		out = append(out, s)
	}
	return out
}

// prompts are the prompts of all turns of the session, played as the n-th one.
func (s *script) prompts(n uint64) [][]Segment {
	all := make([][]Segment, len(s.whole.Turns))
	for i := range s.whole.Turns {
		t := &s.whole.Turns[i]
		kept := t.Keep * s.whole.Block
		var prompt []Segment
		switch {
		case t.Of >= 0 && kept > 0:
			prompt = cut(all[t.Of], kept)
		case s.shared != 0 && t.Agent == 0:
			kept = min((s.whole.Tools+s.whole.System)/s.whole.Block*s.whole.Block, t.Input)
			if kept > 0 {
				prompt = []Segment{{s.shared, kept}}
			}
		default:
			kept = 0
		}
		if t.Input > kept {
			prompt = append(prompt, Segment{(n+1)<<20 | uint64(i+1), t.Input - kept})
		}
		all[i] = prompt
	}
	return all
}

// cut returns the first tokens of a prompt, with room for one segment more.
func cut(prompt []Segment, tokens int) []Segment {
	out := make([]Segment, 0, len(prompt)+1)
	for _, s := range prompt {
		s.Tokens = min(s.Tokens, tokens)
		if out, tokens = append(out, s), tokens-s.Tokens; tokens == 0 {
			break
		}
	}
	return out
}

// OpenSessions plays each session once, at the pace of the recorded service: an open loop.
// Sessions begin in a random order, gap after each other in the mean.
func OpenSessions(sessions []trace.Session, p Play, gap time.Duration, seed uint64) (out []Request) {
	g := rand.New(rand.NewPCG(seed, 0x5e55))
	scripts := newScripts(sessions, p.withDefaults())
	begin := 0.0
	for n, i := range g.Perm(len(scripts)) {
		s := scripts[i]
		begin += g.ExpFloat64() * float64(gap)
		prompts := s.prompts(uint64(n))
		for k := range s.turns {
			out = append(out, Request{
				At: time.Duration(begin) + s.starts[k], Prompt: prompts[s.of[k]], Output: max(s.turns[k].Output, 1), Session: uint64(n) + 1,
			})
		}
	}
	return out
}
