package selfcheck

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/policies"
	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/request/accesslog"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// life is a router's life on the fake clock: its requests are answered as the policy in force would
// have them answered, had it always been in force.
type life struct {
	t       *testing.T
	traffic traffic
	engines policies.Config
	// slow is a factor on the time to the first token under a policy: no simulation knows it.
	slow map[Choice]float64

	checker *Checker
	log     strings.Builder
	mu      sync.Mutex
	inForce Choice // guarded by mu
	plays   map[Choice][]accesslog.Entry
	used    []Choice // all that were put in force
}

func (l *life) set(c Choice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inForce = c
	l.used = append(l.used, c)
}

// run lives through all of the traffic.
func (l *life) run(mode string, configured Choice, limits Limits, peers func() Peers) {
	l.inForce, l.plays = configured, make(map[Choice][]accesslog.Entry)
	l.checker = New(Config{
		Mode: mode, Policy: configured, Options: policy.Defaults, Limits: limits, Workers: l.workers, Peers: peers, Set: l.set,
		Log: slog.New(slog.NewTextHandler(&l.log, nil)),
	})
	l.checker.measure = func(_ *worker.Snapshot, _ string, routers int, _ time.Time) (cluster, string) {
		c := ranks(l.engines)
		c.routers = routers
		return c, ""
	}
	ctx, stop := context.WithCancel(l.t.Context())
	done := make(chan error, 1)
	go func() { done <- l.checker.Run(ctx) }()
	begin := time.Now()
	for i, c := range l.traffic {
		time.Sleep(time.Until(begin.Add(c.at)))
		l.mu.Lock()
		now := l.inForce
		l.mu.Unlock()
		if l.plays[now] == nil {
			l.plays[now] = l.traffic.log(l.t, begin, l.engines, now)
		}
		e := l.plays[now][i]
		if f := l.slow[now]; f > 0 {
			e.TTFT, e.Took = time.Duration(f*float64(e.TTFT)), e.Took+time.Duration((f-1)*float64(e.TTFT))
		}
		time.AfterFunc(e.Took, func() {
			if into := l.checker.Begin(); into != nil {
				*into = e
				l.checker.Commit(into)
			}
		})
	}
	stop()
	require.NoError(l.t, <-done)
	time.Sleep(time.Hour) // the last answers
	l.t.Logf("%s", l.log.String())
}

// workers are ranks of which only the number is known.
func (l *life) workers() *worker.Snapshot {
	return &worker.Snapshot{Ranks: make([]*worker.Rank, l.engines.Workers)}
}

// mean is the mean TTFT that the requests from a time on have under a policy.
func (l *life) mean(c Choice, from time.Duration) (sum float64) {
	if l.plays[c] == nil {
		l.plays[c] = l.traffic.log(l.t, start, l.engines, c)
	}
	n := 0
	for i := range l.traffic {
		if l.traffic[i].at >= from {
			sum += l.plays[c][i].TTFT.Seconds()
			n++
		}
	}
	return sum / float64(n)
}

var engines = policies.Config{
	Workers: 4, CacheTokens: 150_000, Service: policies.Service{PrefillTokensPerSecond: 9000, DecodeBase: 30 * time.Millisecond, PrefillBase: 15 * time.Millisecond},
}

// chats are conversations of a moderate load.
func chats(seed uint64, span time.Duration, perSecond float64) traffic {
	return sessions(seed, span, perSecond, 800, 600, 100, 6, 20*time.Second)
}

// TestCrippledChoiceIsChanged: a router that takes turns finds a policy that knows caches, and the
// change proves itself.
func TestCrippledChoiceIsChanged(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := &life{t: t, traffic: chats(1, 12*time.Minute, 0.25), engines: engines}
		turns := Choice{Policy: "round-robin"}
		l.run(On, turns, Limits{}, nil)
		st := l.checker.Status()
		require.Len(t, l.used, 1)
		require.Equal(t, kv, l.used[0].Policy)
		require.False(t, st.Trial)
		require.Contains(t, st.Why, "proved")
		require.EqualValues(t, 1, st.Changed)
		require.Zero(t, st.TakenBack)
		require.Equal(t, 1, strings.Count(l.log.String(), "self-check changes the policy"))
		require.Equal(t, 1, strings.Count(l.log.String(), "proved itself"))
		require.NotEmpty(t, st.Last.Forecasts)
		require.NoError(t, l.checker.TakeBack())
		require.Equal(t, turns, l.used[1])
		require.ErrorIs(t, l.checker.TakeBack(), ErrNothing)
	})
}

// TestModes: which modes change which policies.
func TestModes(t *testing.T) {
	for mode, changed := range map[string]bool{On: true, Auto: false, Advise: false, Off: false} {
		bubbletest.Test(t, func(t *testing.T) {
			l := &life{t: t, traffic: chats(1, 9*time.Minute, 0.25), engines: engines}
			l.run(mode, Choice{Policy: "round-robin"}, Limits{}, nil)
			st := l.checker.Status()
			require.Equal(t, changed, len(l.used) > 0, mode)
			require.Equal(t, mode == Auto || mode == Advise, st.Advice != "", mode)
			require.Equal(t, mode == Off, st.Requests == 0, mode)
		})
	}
	bubbletest.Test(t, func(t *testing.T) {
		l := &life{t: t, traffic: chats(1, 9*time.Minute, 0.25), engines: engines}
		l.run(On, Choice{Policy: "round-robin"}, Limits{}, func() Peers { return Peers{Routers: 2, Leader: "b"} })
		require.Empty(t, l.used, "another router leads")
		require.Contains(t, l.checker.Status().Waiting, "router b leads")
	})
	bubbletest.Test(t, func(t *testing.T) {
		l := &life{t: t, traffic: chats(1, 9*time.Minute, 0.2), engines: engines}
		l.engines.Workers = 2
		l.run(On, Choice{Policy: "round-robin"}, Limits{}, func() Peers { return Peers{Routers: 2, Apart: true} })
		require.Empty(t, l.used, "each router chooses alone")
	})
}

// TestRealityDisagrees: a policy that is slower than its forecast goes again, and is not tried soon.
func TestRealityDisagrees(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		turns := Choice{Policy: "round-robin"}
		l := &life{t: t, traffic: chats(1, 16*time.Minute, 0.2), engines: engines, slow: map[Choice]float64{}}
		for _, c := range alternatives(turns, 0) {
			l.slow[c] = 40
		}
		l.slow[turns] = 1
		l.run(On, turns, Limits{}, nil)
		require.Len(t, l.used, 2)
		require.Equal(t, turns, l.used[1])
		st := l.checker.Status()
		require.EqualValues(t, 1, st.TakenBack)
		require.Equal(t, "round-robin", st.Policy)
		require.Len(t, st.Changes, 2)
		require.Equal(t, 1, strings.Count(l.log.String(), "level=WARN msg=\"self-check takes a change of the policy back\""))
	})
}

// TestNoFalseChange: over families of traffic kv stays where nothing is better, and a change is no
// mistake.
func TestNoFalseChange(t *testing.T) {
	small := engines
	small.CacheTokens = 40_000
	for name, tc := range map[string]struct {
		traffic traffic
		engines policies.Config
	}{
		"idle":      {chats(3, 25*time.Minute, 0.1), engines},
		"chats":     {chats(4, 12*time.Minute, 0.4), engines},
		"evictions": {chats(5, 12*time.Minute, 0.3), small},
		"documents": {sessions(6, 15*time.Minute, 0.6, 0, 4000, 60, 1, time.Second), engines},
		"agents":    {sessions(7, 25*time.Minute, 0.02, 4000, 1200, 150, 25, 8*time.Second), engines},
	} {
		bubbletest.Test(t, func(t *testing.T) {
			l := &life{t: t, traffic: tc.traffic, engines: tc.engines}
			l.run(Auto, Choice{Policy: kv}, Limits{}, nil)
			st := l.checker.Status()
			t.Logf("%s: %d requests, %d checks, %d matched, %+v; %s; last: %+v", name, len(tc.traffic), st.Checks, st.Matched, st.Changes, st.Waiting, st.Last)
			require.GreaterOrEqual(t, st.Checks, uint64(2), name)
			require.GreaterOrEqual(t, st.Matched, st.Checks-1, name)
			for _, c := range l.used {
				require.Less(t, l.mean(c, 6*time.Minute), 1.02*l.mean(Choice{Policy: kv}, 6*time.Minute), name)
			}
		})
	}
}

// TestPace: a simulation has its share of one processor and ends with its context.
func TestPace(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		p := &pacer{share: 0.02}
		ctx, cancel := context.WithCancel(t.Context())
		p.begin(ctx)
		begin, worked := time.Now(), time.Duration(0)
		for range 1000 {
			time.Sleep(50 * time.Microsecond) // work
			worked += 50 * time.Microsecond
			require.NoError(t, p.step())
		}
		p.end()
		require.Equal(t, worked, time.Duration(p.used.Load()))
		require.InDelta(t, 0.02, float64(worked)/float64(time.Since(begin)), 0.001)
		p.begin(ctx)
		cancel()
		var err error
		for range 2 * stepsAClock {
			time.Sleep(50 * time.Microsecond)
			if err = p.step(); err != nil {
				break
			}
		}
		require.ErrorIs(t, err, context.Canceled)
		synctest.Wait()
	})
}
