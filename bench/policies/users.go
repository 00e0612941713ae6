package policies

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/warmpath/warmpath/bench/trace"
)

// Users is a closed loop: each user plays one session after the other, and a turn comes its
// think time after the answer that it follows; see [trace.Session.Steps]. The zero value of a
// field stands for its default.
type Users struct {
	N int `json:"users"` // default 1
	// Warmup is the time before the measurement; default 10 min. Users begin one by one in its
	// first half, each at a random moment of the endless row of all sessions, so that at any time
	// as many are at each turn as when they have gone on forever.
	Warmup time.Duration `json:"warmup"`
	// For is the time of the measurement; default 30 min. Turns that come in it are measured, to
	// the end of their answers; later ones do not come.
	For time.Duration `json:"for"`
	// Open lets turns come at the pace of the recorded service, whatever the simulated one does:
	// an open loop of the same users.
	Open bool `json:"open,omitempty"`
	Play
}

func (u Users) withDefaults() Users {
	or(&u.N, 1)
	or(&u.Warmup, 10*time.Minute)
	or(&u.For, 30*time.Minute)
	u.Play = u.Play.withDefaults()
	return u
}

const mostUsers = 1 << 20

func (u *Users) check() error {
	if u.N < 1 || u.N > mostUsers || u.Warmup < 0 || u.For <= 0 || u.Warmup+u.For > trace.MaxSpan || u.MaxThink < 0 || u.MaxPrompt < 1 {
		return fmt.Errorf("cannot simulate %d users for %v after %v, with pauses of at most %v and prompts of at most %d tokens: %w",
			u.N, u.For, u.Warmup, u.MaxThink, u.MaxPrompt, ErrConfig)
	}
	return nil
}

// course is the order of a closed loop's turns: which job follows which answer, and which
// session which.
type course struct {
	Users
	// Of each job: the session that it belongs to, the pause before it, the first job that
	// follows its answer, and the next one that follows the same answer; -1: none.
	session     []int32
	wait        []clock
	first, next []int32
	played      []playedSession
	begins      []clock // of users
	of          []int32 // of each user, the first session; and the number of all
}

// playedSession is a session of one user.
type playedSession struct {
	user, turns int32
	root        int32 // the first job that follows no answer; the others are next to it
}

// newCourse lays out the turns that n users can have before the end: as many as they would have
// before idle workers without other requests, and no more.
func newCourse(scripts []*script, u Users, service Service, speed float64, seed uint64) ([]Request, *course) {
	c := &courseBuilder{course: &course{Users: u}, scripts: scripts, service: service, speed: speed}
	total := time.Duration(0)
	for _, s := range scripts {
		total += s.length
	}
	for user := range u.N {
		g := rand.New(rand.NewPCG(seed, uint64(user)))
		c.of = append(c.of, int32(len(c.played)))
		begin := time.Duration(g.Float64() * float64(u.Warmup) / 2)
		c.begins = append(c.begins, ticks(begin))
		order, from := g.Perm(len(scripts)), time.Duration(g.Float64()*float64(total))
		k := 0
		for from >= scripts[order[k]].length && k < len(order)-1 {
			from -= scripts[order[k]].length
			k++
		}
		for begin <= u.Warmup+u.For {
			begin = c.play(int32(user), scripts[order[k%len(order)]], begin, from)
			k, from = k+1, 0
		}
	}
	c.of = append(c.of, int32(len(c.played)))
	return c.requests, c.course
}

// leastPause keeps a turn from the instant of the answer before it, in which its worker has begun
// other work.
const leastPause = time.Nanosecond

type courseBuilder struct {
	*course
	requests []Request
	scripts  []*script
	service  Service
	speed    float64
}

// fastest is the time of an answer from an idle worker with all of the prompt in its cache, and
// a little less.
func (c *courseBuilder) fastest(output int) time.Duration {
	least := float64(c.service.PrefillBase) + float64(max(output, 1)-1)*float64(c.service.DecodeBase)
	return time.Duration(0.99 * least / c.speed)
}

// at is the time of a turn where it is known beforehand.
func (c *courseBuilder) at(earliest time.Duration) time.Duration {
	if c.Open {
		return earliest
	}
	return 0
}

// play adds a session that begins, at the earliest, at begin, without the turns that its course
// has before from, and returns its earliest end. A session that cannot end before the measurement
// does has no end.
func (c *courseBuilder) play(user int32, s *script, begin, from time.Duration) (end time.Duration) {
	id, last := int32(len(c.played)), c.Warmup+c.For
	p := playedSession{user: user, root: -1}
	jobs, ends := make([]int32, len(s.turns)), make([]time.Duration, len(s.turns))
	var prompts [][]Segment
	end = begin
	for k := range s.turns {
		step := s.steps[k]
		jobs[k] = -1
		if s.starts[k] < from {
			continue
		}
		earliest, into, wait := begin+s.starts[k]-from, &p.root, s.starts[k]-from
		if step.After >= 0 && s.starts[step.After] >= from && !c.Open {
			earliest, wait = ends[step.After]+step.Wait, step.Wait
			if jobs[step.After] >= 0 {
				into = &c.first[jobs[step.After]]
			}
		}
		ends[k] = earliest + c.fastest(s.turns[k].Output)
		if c.Open {
			ends[k] = earliest + s.turns[k].Served
		}
		end = max(end, ends[k])
		if earliest > last {
			continue
		}
		if prompts == nil {
			prompts = s.prompts(uint64(id))
		}
		job := int32(len(c.requests))
		c.requests = append(c.requests, Request{At: c.at(earliest), Prompt: prompts[s.of[k]], Output: max(s.turns[k].Output, 1), Session: uint64(id) + 1})
		c.session, c.wait = append(c.session, id), append(c.wait, ticks(max(wait, leastPause)))
		jobs[k] = job
		c.next = append(c.next, *into)
		*into = job
		c.first = append(c.first, -1)
		p.turns++
	}
	if p.turns > 0 {
		c.played = append(c.played, p)
	}
	return end
}
