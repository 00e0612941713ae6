package routing_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

var (
	gpuDead     = worker.Health{State: worker.GPUDead, Reasons: []string{"XID 79: GPU has fallen off the bus"}}
	gpuDraining = worker.Health{State: worker.GPUDraining, Reasons: []string{"a row of memory could not be remapped"}}
	gpuNoTP     = worker.Health{State: worker.GPUDegraded, NoTP: true, Reasons: []string{"17 of 18 NVLinks up"}}
	gpuSlow     = worker.Health{State: worker.GPUDegraded, Weight: 0.5}
)

// tell tells facts about the GPUs of a rank's worker.
func (f *fleet) tell(rank int, h worker.Health) { f.ranks[rank].Worker.SetHealth(h) }

// on is a node of workers that compute on several GPUs.
func on(gpus int) *node {
	n := tiny()
	n.tp = gpus
	return n
}

// A rank that facts exclude is not chosen, with any policy, and the explanation has the reason.
func TestFactsLeaveRanksOut(t *testing.T) {
	f := newFleet(t, on(1), on(2), on(1), on(2), on(1), on(0))
	f.tell(0, gpuDead)
	f.tell(1, gpuNoTP)
	f.tell(2, gpuDraining)
	f.tell(4, gpuNoTP) // alone it is as good as ever
	f.tell(5, gpuNoTP) // how many it computes on is not known
	ids := tokens(1, 1000)
	for i := range 3 { // and they are those that would be chosen
		f.holds(i, radix.DomainKey{}, ids, 250, radix.TierGPU)
		f.ranks[i].SetExact(true)
	}
	for _, name := range policy.Names() {
		inner, err := policy.New(name, policy.Defaults)
		require.NoError(t, err)
		r := f.with(policy.Sticky{Policy: inner})
		r.Sessions = routing.NewSessions()
		for range 30 {
			d, err := r.Pick(&f.scratch, prompt(ids), nil)
			require.NoError(t, err)
			require.True(t, slices.Contains(f.ranks[3:], d.Rank), name)
			require.Zero(t, d.Overruled)
		}
		require.Equal(t, []uint64{30, 30, 30, 0}, counts(r), name)
		x := r.Explain(&f.scratch, prompt(ids), 7)
		require.Equal(t, []uint64{30, 30, 30, 0}, counts(r), "explaining counts nothing")
		said := map[string]string{}
		for _, c := range x.Ranks {
			said[c.Rank.ID()] = c.Excluded
		}
		require.Equal(t, map[string]string{
			"http://n00:1": "has dead GPUs (XID 79: GPU has fallen off the bus), and others are fit",
			"http://n01:1": "computes on several GPUs, which it should not (17 of 18 NVLinks up), and others are fit",
			"http://n02:1": "has GPUs that must be drained (a row of memory could not be remapped), and others are fit",
			"http://n03:1": "", "http://n04:1": "", "http://n05:1": "",
		}, said)
	}
	f.tell(0, worker.Health{})
	d := f.kvPick(prompt(ids))
	require.Same(t, f.ranks[0], d.Rank, "recovery brings it back")
}

func counts(r *routing.Router) []uint64 {
	return []uint64{r.Exclusions.Dead.Load(), r.Exclusions.Draining.Load(), r.Exclusions.NoTP.Load(), r.Exclusions.Overruled.Load()}
}

// Facts never exclude all ranks: the least bad get the request, and the decision says so.
func TestFactsLeaveTheLeastBad(t *testing.T) {
	type change func(f *fleet)
	tell := func(rank int, h worker.Health) change { return func(f *fleet) { f.tell(rank, h) } }
	slow := func(rank int) change { return func(f *fleet) { f.force(rank, worker.Slow) } }
	broken := func(rank int) change {
		return func(f *fleet) {
			for range 3 {
				f.ranks[rank].Worker.Fault(time.Now())
			}
		}
	}
	tests := []struct {
		name      string
		changes   []change
		want      []int
		overruled string
	}{
		{"nothing", nil, []int{0, 1, 2}, ""},
		{"all drain", []change{tell(0, gpuDraining), tell(1, gpuDraining), tell(2, gpuDraining)}, []int{0, 1, 2}, "draining"},
		{"links before drains", []change{tell(0, gpuDraining), tell(1, gpuNoTP), tell(2, gpuDraining)}, []int{1}, "no_tp"},
		{"drains before death", []change{tell(0, gpuDead), tell(1, gpuDraining), tell(2, gpuDraining)}, []int{1, 2}, "draining"},
		{"drains before a hang", []change{slow(0), slow(1), tell(2, gpuDraining)}, []int{2}, "draining"},
		{"a hang before death", []change{slow(0), slow(1), tell(2, gpuDead)}, []int{0, 1}, ""},
		{"death by facts before requests that failed", []change{broken(0), broken(1), tell(2, gpuDead)}, []int{2}, "dead"},
		{"all are dead at once: the probes are believed", []change{tell(0, gpuDead), tell(1, gpuDead), tell(2, gpuDead)}, []int{0, 1, 2}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, on(2), on(2), on(2))
			for _, c := range tt.changes {
				c(f)
			}
			r := f.with(policy.RoundRobin{})
			got := map[int]bool{}
			for range 12 {
				d, err := r.Pick(&f.scratch, prompt(tokens(1, 100)), nil)
				require.NoError(t, err)
				require.Equal(t, tt.overruled, d.Overruled.String())
				for i, rank := range f.ranks {
					if rank == d.Rank {
						got[i] = true
					}
				}
			}
			want := map[int]bool{}
			for _, i := range tt.want {
				want[i] = true
			}
			require.Equal(t, want, got)
			overruled := uint64(0)
			if tt.overruled != "" {
				overruled = 12
			}
			require.Equal(t, overruled, r.Exclusions.Overruled.Load())
			require.Equal(t, tt.overruled, r.Explain(&f.scratch, prompt(tokens(1, 100)), 1).Decision.Overruled.String())
		})
	}
}

// A request that failed elsewhere goes to a remaining rank, in spite of facts.
func TestFactsYieldToFailures(t *testing.T) {
	f := newFleet(t, on(1), on(1), on(1))
	f.tell(0, gpuDead)
	p := prompt(tokens(1, 100))
	require.True(t, f.router.HasUntried(p, f.ranks[1:]))
	d := f.kvPick(p, f.ranks[1:]...)
	require.Same(t, f.ranks[0], d.Rank)
	require.Equal(t, routing.FaultDead, d.Overruled)
	require.False(t, f.router.HasUntried(p, f.ranks))
}

// The halves of a pair are left out by facts as others are.
func TestFactsLeaveLegsOut(t *testing.T) {
	f := pairFleet(t)
	ids := tokens(1, 4000)
	f.holds(0, radix.DomainKey{}, ids, 900, radix.TierGPU)
	f.ranks[0].SetExact(true)
	p := prompt(ids)
	f.tell(0, gpuDead)
	f.tell(2, gpuDraining)
	for _, name := range policy.Names() {
		inner, err := policy.New(name, policy.Defaults)
		require.NoError(t, err)
		r := f.with(inner)
		for range 10 {
			d, err := r.Pick(&f.scratch, p, nil)
			require.NoError(t, err)
			require.Equal(t, ranksOf(f.ranks[1], f.ranks[3]), ranksOf(d.Rank, d.Decode), name)
		}
		require.Equal(t, []uint64{10, 10, 0, 0}, counts(r))
	}
	f.tell(3, gpuDraining)
	d := f.kvPick(p)
	require.True(t, slices.Contains(f.ranks[2:], d.Decode))
	require.Equal(t, routing.FaultDrains, d.Overruled)
	f.tell(2, worker.Health{})
	f.tell(3, worker.Health{})
	f.tell(0, worker.Health{})
	f.tell(2, gpuSlow)
	d = f.kvPick(p)
	require.Equal(t, ranksOf(f.ranks[0], f.ranks[3]), ranksOf(d.Rank, d.Decode), "a slow decode rank takes longer for each step")
}

// A candidate has the weight that its worker's facts and free memory leave it, until they fade.
func TestFactsBecomeWeights(t *testing.T) {
	bubble(t, 3, func(f *fleet) {
		f.tell(1, worker.Health{State: worker.GPUDegraded, Weight: 0.55})
		f.tell(2, worker.Health{Free: 512 << 20})
		weights := func(n int) (all []float64) {
			_, _ = f.pick(prompt(tokens(1, n)))
			for _, c := range f.spy.candidates {
				all = append(all, c.Weight)
			}
			return all
		}
		assert.Equal(t, []float64{0, 0.55, 1}, weights(1000), "512 MiB are enough for 1,000 tokens")
		assert.InDeltaSlice(t, []float64{0, 0.55, 0.75}, weights(9000), 1e-3, "and half of what a chunk needs")
		f.tell(2, worker.Health{Free: 1 << 20, Weight: 0.4})
		assert.InDeltaSlice(t, []float64{0, 0.55, 0.4}, weights(9000), 1e-3, "the narrowest of both")
		time.Sleep(worker.HealthFor + 2*time.Second)
		assert.Equal(t, []float64{0, 0, 0}, weights(9000), "facts that are old count for nothing")
	})
}

// Cached tokens need no memory to compute.
func TestScarceMemoryCountsForWhatIsComputed(t *testing.T) {
	f := newFleet(t, on(1), on(1))
	ids := tokens(1, 8000)
	f.holds(0, radix.DomainKey{}, ids, 1900, radix.TierGPU)
	f.ranks[0].SetExact(true)
	for i := range f.ranks {
		f.tell(i, worker.Health{Free: 256 << 20})
	}
	_, _ = f.pick(prompt(ids))
	require.InDelta(t, 1, f.spy.candidates[0].Weight, 0)
	require.InDelta(t, 0.63, f.spy.candidates[1].Weight, 0.005)
}

// A slowed rank's own measure of its speed does not count twice.
func TestFactsComeWithTheSpeedBefore(t *testing.T) {
	f := newFleet(t, on(1), on(1))
	for i := range f.ranks {
		f.ranks[i].Load.Report(time.Now(), worker.Report{Prefilled: 100_000, Busy: 10 * time.Second})
	}
	f.tell(0, gpuSlow)
	_, _ = f.pick(prompt(tokens(1, 100)))
	require.InDelta(t, 10_000, f.spy.candidates[0].FullRate, 1)
	require.Zero(t, f.spy.candidates[1].FullRate)
	x := f.with(policy.KV{Options: policy.Defaults}).Explain(&f.scratch, prompt(tokens(1, 1000)), 1)
	require.Same(t, f.ranks[1], x.Decision.Rank)
	require.InDelta(t, 0.1, x.Ranks[0].Cost.Health, 1e-6, "as long again as 1,000 tokens take at full speed")
	require.Equal(t, []float64{0.5, 1}, []float64{x.Ranks[0].Weight, x.Ranks[1].Weight})
}
