package policies

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/trace"
)

// recordedSessions are the sessions of package trace's tests.
func recordedSessions(t *testing.T) []trace.Session {
	t.Helper()
	f, err := os.Open("../trace/testdata/sessions.jsonl")
	require.NoError(t, err)
	defer f.Close()
	sessions, err := trace.ReadSessions(f, 0)
	require.NoError(t, err)
	return sessions
}

// tinySessions are small sessions with sub-agents, rewinds and turns at one instant.
func tinySessions(seed uint64) (out []trace.Session) {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 3))}
	for range 5 {
		s := trace.Session{Model: "m", Tools: 9 + 4*g.IntN(2), System: 12, Block: 8}
		at := time.Duration(0)
		for i := range g.between(1, 9) {
			t := trace.Turn{At: at, Served: time.Duration(g.IntN(3000)) * time.Millisecond, Output: g.IntN(12), Input: g.between(20, 60), Of: -1}
			t.Think = time.Duration(g.IntN(4)) * 500 * time.Millisecond
			if i > 0 && g.IntN(5) > 0 {
				t.Of = i - 1 - g.IntN(min(i, 2))
				t.Input = min(s.Turns[t.Of].Input+g.IntN(40), 200)
				t.Keep = g.IntN(min(t.Input, s.Turns[t.Of].Input)/8 + 1)
			}
			if g.IntN(4) == 0 {
				t.Agent = g.IntN(3)
			}
			s.Turns = append(s.Turns, t)
			at += time.Duration(g.IntN(3)) * time.Second
		}
		out = append(out, s)
	}
	return out
}

func tinyUsers(t *testing.T, seed uint64, change func(*Config)) *study {
	t.Helper()
	cfg := tinyConfig(seed)
	if change != nil {
		change(&cfg)
	}
	u := Users{N: 3 + int(seed%3), Warmup: 4 * time.Second, For: 14 * time.Second, Play: Play{MaxThink: 1200 * time.Millisecond, Share: seed%2 == 0}}
	s, err := newUserStudy(tinySessions(seed), u, cfg, nil)
	require.NoError(t, err)
	return s
}

// inOrder checks every arrival of a closed loop against the answers: a turn comes its pause after
// the answer that it follows, a session after the last answer of the one before, and nothing is
// left out that could have come before the end.
func inOrder(t *testing.T, s *run) {
	t.Helper()
	c := s.course
	after, root := make([]int, len(s.jobs)), make([]bool, len(s.jobs))
	for i := range s.jobs {
		for k := c.first[i]; k >= 0; k = c.next[k] {
			after[k] = i
		}
	}
	for _, p := range c.played {
		for k := p.root; k >= 0; k = c.next[k] {
			root[k] = true
		}
	}
	for id := range c.played {
		p := &c.played[id]
		begin := c.begins[p.user]
		if id > int(c.of[p.user]) {
			begin = 0
			for i := range s.jobs {
				if c.session[i] == int32(id)-1 && begin != never {
					if begin = max(begin, s.tasks[i].ended); s.tasks[i].job == nil {
						begin = never
					}
				}
			}
		}
		for i := range s.jobs {
			if c.session[i] != int32(id) {
				continue
			}
			from := begin
			if !root[i] {
				if from = s.tasks[after[i]].ended; s.tasks[after[i]].job == nil {
					from = never
				}
			}
			if from == never || from+c.wait[i] >= s.arrivals.end {
				require.Nil(t, s.tasks[i].job, "request %d comes too early", i)
				continue
			}
			require.NotNil(t, s.tasks[i].job, "request %d does not come", i)
			require.Equal(t, from+c.wait[i], s.tasks[i].arrived, "request %d", i)
		}
	}
}

// The closed loop against the naive worker, token by token, and against the order of its turns.
func TestUsersAgainstNaive(t *testing.T) {
	came := 0
	for seed := range uint64(6) {
		study := tinyUsers(t, seed, nil)
		p := study.plan
		scripts := newScripts(tinySessions(seed), p.course.Play)
		requests, _ := newCourse(scripts, p.course.Users, study.cfg.Service, 1, seed)
		spelled, ends := spell(p, requests), make([]int, len(p.jobs))
		for i := range ends {
			ends[i] = int(p.jobs[i].pages)
		}
		unit := units(4, spelled, ends)
		for _, name := range []string{"round-robin", "kv", "sticky-sessions", Greedy} {
			s, err := simulate(t.Context(), p, study.cfg, name, func(int) {})
			require.NoError(t, err)
			inOrder(t, s)
			came += s.answered
			for w := range s.workers {
				naively(t, s, spelled, unit, w)
			}
		}
	}
	assert.Greater(t, came, 300)
}

// The closed loop with every policy, with replicas, queues and pairs.
func TestUsersEndEveryTurn(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"plain":    func(*Config) {},
		"replicas": func(c *Config) { c.Routers, c.Share = 3, ShareGossip },
		"pools":    func(c *Config) { c.Workers, c.Prefill = 3, 1 },
		"queue":    func(c *Config) { c.queue = DepthFirst },
		"small":    func(c *Config) { c.CacheTokens = 80 }, // turns that are refused
	} {
		t.Run(name, func(t *testing.T) {
			study := tinyUsers(t, 3, change)
			names := Names()
			if name == "queue" {
				names = []string{"kv"}
			}
			for _, policyName := range names {
				s, err := newRun(study.plan, study.cfg, policyName, func(int) {})
				require.NoError(t, err)
				if policyName == "kv" {
					s.observe = func(w *worker) { sound(t, w) }
				}
				require.NoError(t, s.loop(t.Context()), policyName)
				if name != "small" {
					inOrder(t, s)
				}
				r := s.result()
				require.Equal(t, s.arrivals.begun, s.answered+s.refused)
				require.Equal(t, name == "small", s.refused > 0, name)
				require.Positive(t, r.Requests)
				require.Less(t, r.Requests, s.answered, "the warm-up is not measured")
			}
		})
	}
}

// More users than the workers carry do not add requests without end: each waits for its answers.
func TestUsersOfRecordedSessions(t *testing.T) {
	sessions := recordedSessions(t)
	cfg := Config{Workers: 2, CacheTokens: 400_000, Seed: 1}
	var last *Result
	for _, n := range []int{4, 40, 400} {
		r, err := SimulateUsers(t.Context(), "recorded", sessions, Users{N: n, Warmup: 2 * time.Minute, For: 5 * time.Minute}, cfg, []string{"kv"}, nil)
		require.NoError(t, err)
		x := r.Results[0]
		require.LessOrEqual(t, x.Hits, r.Trace.Bound)
		if last != nil {
			require.Greater(t, x.TTFT.P95, last.TTFT.P95)
		}
		last = x
	}
	require.Greater(t, last.TTFT.P95, 10*time.Second)
	one, err := SimulateUsers(t.Context(), "recorded", sessions, Users{N: 40, Play: Play{Share: true}}, cfg, []string{"kv"}, nil)
	require.NoError(t, err)
	again, err := SimulateUsers(t.Context(), "recorded", sessions, Users{N: 40, Play: Play{Share: true}}, cfg, []string{"kv"}, nil)
	require.NoError(t, err)
	require.Equal(t, one, again)
	apart, err := SimulateUsers(t.Context(), "recorded", sessions, Users{N: 40}, cfg, []string{"kv"}, nil)
	require.NoError(t, err)
	require.Greater(t, one.Trace.Bound, apart.Trace.Bound, "sessions that share blocks find more")
}

func TestUsersRefuse(t *testing.T) {
	sessions := recordedSessions(t)
	for _, u := range []Users{{N: -1}, {N: 1 << 30}, {For: -1}, {Warmup: -1}, {For: 1 << 60}, {Play: Play{MaxThink: -1}}, {Play: Play{MaxPrompt: -1}}, {Play: Play{MaxPrompt: 10}}} {
		_, err := SimulateUsers(t.Context(), "x", sessions, u, Config{}, []string{"kv"}, nil)
		require.ErrorIs(t, err, ErrConfig, "%+v", u)
	}
}

// Gaps against the list of all of them.
func TestGaps(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 2))
	var sum gaps
	var all []time.Duration
	for range 300 {
		d, more := clock(g.Int64N(int64(second)/8))+nanosecond, clock(g.Int64N(int64(second)/20_000))
		steps, count := g.IntN(40), 1+g.IntN(3)
		sum.addSteps(d, more, steps, count)
		for k := range steps {
			for range count {
				all = append(all, (d + clock(k)*more).duration())
			}
		}
	}
	var both gaps
	both.Merge(&sum.Histogram)
	want, got := trace.TimesOf(all), both.times()
	require.Equal(t, int64(len(all)), both.Count())
	require.InEpsilon(t, want.Mean, got.Mean, 1e-6)
	require.Equal(t, want.Max, got.Max)
	for _, pair := range [][2]time.Duration{{want.P50, got.P50}, {want.P90, got.P90}, {want.P95, got.P95}, {want.P99, got.P99}} {
		require.InEpsilon(t, pair[0], pair[1], 0.01)
	}
	require.Zero(t, (&gaps{}).times())
}
