package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// crowd runs test over so many ready workers in a bubble of time.
func crowd(t *testing.T, n int, test func(all []*worker.Worker)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		reg := worker.NewRegistry(worker.Config{Log: slog.New(slog.DiscardHandler), Dial: f.dial}, nil)
		for i := range n {
			_, err := reg.Add(fmt.Sprintf("http://w%02d:1", i))
			require.NoError(t, err)
		}
		time.Sleep(probed)
		synctest.Wait()
		all := reg.Snapshot().Workers
		for _, w := range all {
			require.Equal(t, worker.Ready, w.State())
		}
		test(all)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		require.NoError(t, reg.Run(ctx))
		time.Sleep(time.Minute) // the clients' cleaners of connections end
	})
}

func verdict(w *worker.Worker) *worker.Verdict { return w.Verdict(time.Now().UnixNano()) }

func TestHealthIsWhatWasTold(t *testing.T) {
	tests := []struct {
		name     string
		told     worker.Health
		state    worker.GPUState
		weight   float64
		noTP     bool
		free     int64
		nothing  bool // the verdict is nil
		wantTold float64
	}{
		{"nothing", worker.Health{}, worker.GPUHealthy, 1, false, 0, true, 1},
		{"well", worker.Health{Weight: 1, Free: 20 << 30}, worker.GPUHealthy, 1, false, 0, true, 1},
		{"throttled", worker.Health{State: worker.GPUDegraded, Weight: 0.55}, worker.GPUDegraded, 0.55, false, 0, false, 0.55},
		{"degraded in words only", worker.Health{State: worker.GPUDegraded, Weight: 1}, worker.GPUHealthy, 1, false, 0, true, 1},
		{"a link is down", worker.Health{State: worker.GPUDegraded, NoTP: true}, worker.GPUDegraded, 1, true, 0, false, 1},
		{"draining", worker.Health{State: worker.GPUDraining, Weight: 0.5}, worker.GPUDraining, 0.5, false, 0, false, 0.5},
		{"next to nothing is left", worker.Health{State: worker.GPUDegraded, Weight: 1e-9}, worker.GPUDegraded, 0.01, false, 0, false, 1e-9},
		{"weights that are none", worker.Health{Weight: math.NaN()}, worker.GPUHealthy, 1, false, 0, true, 1},
		{"more than all", worker.Health{Weight: 7}, worker.GPUHealthy, 1, false, 0, true, 1},
		{"less than nothing", worker.Health{Weight: -7}, worker.GPUHealthy, 1, false, 0, true, 1},
		{"little memory", worker.Health{Free: 512 << 20}, worker.GPUHealthy, 1, false, 512 << 20, false, 1},
		{"no memory", worker.Health{Free: 1}, worker.GPUHealthy, 1, false, 1, false, 1},
		{"a state of a later release", worker.Health{State: 9, Weight: 0.5}, worker.GPUHealthy, 0.5, false, 0, false, 0.5},
		{"all at once", worker.Health{State: worker.GPUDraining, Weight: 0.07, NoTP: true, Free: 1023 << 20}, worker.GPUDraining, 0.07, true, 1023 << 20, false, 0.07},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			crowd(t, 2, func(all []*worker.Worker) {
				w := all[0]
				require.Nil(t, verdict(w))
				require.Equal(t, worker.Health{Weight: 1}, w.Health(time.Now()), "nothing is known before it is told")
				w.SetHealth(tt.told)
				v := verdict(w)
				require.Equal(t, tt.nothing, v == nil)
				if v != nil {
					require.Equal(t, []any{tt.state, tt.weight, tt.noTP, tt.free}, []any{v.State, v.Weight, v.NoTP, v.Free})
				}
				require.InDelta(t, tt.wantTold, w.Health(time.Now()).Weight, 1e-12)
				require.False(t, w.Health(time.Now()).At.IsZero())
				require.Nil(t, verdict(all[1]), "the others are as they were")
			})
		})
	}
}

func TestHealthFades(t *testing.T) {
	crowd(t, 2, func(all []*worker.Worker) {
		w := all[0]
		w.SetHealth(worker.Health{State: worker.GPUDead, Reasons: []string{"XID 79"}})
		time.Sleep(worker.HealthFor - 2*time.Second)
		require.Equal(t, worker.GPUDead, verdict(w).State)
		w.SetHealth(worker.Health{State: worker.GPUDead, Reasons: []string{"XID 79"}})
		time.Sleep(worker.HealthFor - 2*time.Second)
		require.Equal(t, worker.GPUDead, verdict(w).State, "told again")
		time.Sleep(4 * time.Second)
		require.Nil(t, verdict(w))
		h := w.Health(time.Now())
		require.Equal(t, worker.GPUUnknown, h.State)
		require.Len(t, h.Reasons, 1)
		require.Contains(t, h.Reasons[0], "nothing was heard of its GPUs for 32s; the last was: dead")
		require.Equal(t, worker.Ready, w.State(), "its probes decide alone")
		w.SetHealth(worker.Health{At: time.Now().Add(time.Hour), State: worker.GPUDraining})
		time.Sleep(worker.HealthFor + 2*time.Second)
		require.Nil(t, verdict(w), "a clock that is ahead does not make facts last longer")
	})
}

// Facts that kill most of a fleet at one instant are a bug of the monitoring; deaths one by one
// are real.
func TestHealthDoubtsADeadFleet(t *testing.T) {
	dead := worker.Health{State: worker.GPUDead}
	tests := []struct {
		name  string
		fleet int
		gaps  []time.Duration // before each death
		want  int             // deaths that are believed
	}{
		{"one of many", 8, []time.Duration{0}, 1},
		{"half of them at once: a machine of two", 8, make([]time.Duration, 4), 4},
		{"more than half", 8, make([]time.Duration, 5), 0},
		{"all", 8, make([]time.Duration, 8), 0},
		{"one of two", 2, []time.Duration{0}, 1},
		{"both at once", 2, make([]time.Duration, 2), 0},
		{"the only one", 1, []time.Duration{0}, 0},
		{"one by one, but for the last", 4, []time.Duration{0, 20 * time.Second, 20 * time.Second, 20 * time.Second}, 3},
		{"five over minutes", 8, []time.Duration{0, 20 * time.Second, 20 * time.Second, 20 * time.Second, 20 * time.Second}, 5},
		{"a real death, and then the monitoring", 8, []time.Duration{0, 20 * time.Second, 0, 0, 0, 0, 0, 0}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			crowd(t, tt.fleet, func(all []*worker.Worker) {
				for i, gap := range tt.gaps {
					for range int(gap / time.Second) {
						time.Sleep(time.Second)
						for _, w := range all[:i] {
							w.SetHealth(dead)
						}
					}
					all[i].SetHealth(dead)
				}
				believed := 0
				for _, w := range all[:len(tt.gaps)] {
					v := verdict(w)
					require.Equal(t, w.Doubted(), v == nil || v.State != worker.GPUDead)
					require.Equal(t, worker.GPUDead, w.Health(time.Now()).State, "what was told is shown all the same")
					if !w.Doubted() {
						believed++
					}
				}
				require.Equal(t, tt.want, believed)
				for _, w := range all {
					w.SetHealth(worker.Health{})
					require.False(t, w.Doubted())
					require.Nil(t, verdict(w))
				}
				all[0].SetHealth(dead)
				require.Equal(t, len(all) == 1, all[0].Doubted(), "what was doubted is over")
			})
		})
	}
}

// A worker that does not answer its probes is no witness: that its neighbours are dead is
// believed.
func TestHealthOfThoseThatAnswerCounts(t *testing.T) {
	crowd(t, 3, func(all []*worker.Worker) {
		all[0].Drain(true)
		all[1].SetHealth(worker.Health{State: worker.GPUDead})
		require.False(t, all[1].Doubted(), "one of two that serve")
		all[2].SetHealth(worker.Health{State: worker.GPUDead})
		require.True(t, all[2].Doubted())
	})
}

// Requests without a first byte leave a worker that facts call dead, once, and only while
// another worker can take them.
func TestHealthGivesRequestsUp(t *testing.T) {
	wait := func(w *worker.Worker) *atomic.Int32 {
		n := new(atomic.Int32)
		w.Await(func(bool) bool { n.Add(1); return true })
		return n
	}
	crowd(t, 4, func(all []*worker.Worker) {
		here, there := wait(all[0]), wait(all[1])
		all[0].SetHealth(worker.Health{State: worker.GPUDraining})
		time.Sleep(2 * time.Second)
		require.Zero(t, here.Load(), "who drains answers what it has")
		all[0].SetHealth(worker.Health{State: worker.GPUDead})
		time.Sleep(time.Second)
		require.Equal(t, []int32{1, 0}, []int32{here.Load(), there.Load()})
		again := wait(all[0])
		all[0].SetHealth(worker.Health{State: worker.GPUDead})
		time.Sleep(5 * time.Second)
		require.Zero(t, again.Load(), "who was sent there for want of others waits")
	})
	crowd(t, 4, func(all []*worker.Worker) {
		var waiting []*atomic.Int32
		for _, w := range all {
			waiting = append(waiting, wait(w))
			w.SetHealth(worker.Health{State: worker.GPUDead})
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		for _, n := range waiting {
			require.Zero(t, n.Load(), "the fleet is said to be dead, which is not believed")
		}
	})
	crowd(t, 2, func(all []*worker.Worker) {
		all[1].SetHealth(worker.Health{State: worker.GPUDraining})
		here := wait(all[0])
		all[0].SetHealth(worker.Health{State: worker.GPUDead})
		time.Sleep(5 * time.Second)
		require.Zero(t, here.Load(), "nobody could take it")
	})
}

// A rank's speed before its GPU slowed down is kept as long as it is slow.
func TestHealthKeepsTheFullSpeed(t *testing.T) {
	crowd(t, 2, func(all []*worker.Worker) {
		w, rank := all[0], all[0].Ranks()[0]
		for i := range int64(20) {
			rank.Load.Report(time.Now(), worker.Report{Prefilled: 10_000 * (i + 1), Busy: time.Duration(i+1) * time.Second})
		}
		require.Zero(t, rank.FullSpeed())
		w.SetHealth(worker.Health{State: worker.GPUDegraded, Weight: 0.5})
		require.InDelta(t, 10_000, rank.FullSpeed(), 1e-6)
		for i := range int64(1000) {
			rank.Load.Report(time.Now(), worker.Report{Prefilled: 200_000 + 5000*(i+1), Busy: time.Duration(20+i+1) * time.Second})
		}
		w.SetHealth(worker.Health{State: worker.GPUDegraded, Weight: 0.4})
		require.InDelta(t, 10_000, rank.FullSpeed(), 1e-6, "not what it measures meanwhile")
		require.Less(t, rank.Load.View(time.Now()).Rate, 6000.0)
		w.SetHealth(worker.Health{})
		require.Zero(t, rank.FullSpeed())
	})
}

func TestGPUStateNames(t *testing.T) {
	for s := worker.GPUUnknown; s <= worker.GPUDead; s++ {
		got, ok := worker.ParseGPUState(s.String())
		require.True(t, ok)
		require.Equal(t, s, got)
	}
	for name, known := range map[string]bool{"": true, "on fire": false} {
		got, ok := worker.ParseGPUState(name)
		require.Equal(t, known, ok)
		require.Equal(t, worker.GPUUnknown, got)
	}
	require.Equal(t, "state 9", worker.GPUState(9).String())
}
