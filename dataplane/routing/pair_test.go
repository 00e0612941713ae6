package routing_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

func prefillNode() *node { return &node{models: named(model), mode: "prefill"} }

func decodeNode() *node { return &node{models: named(model), mode: "decode"} }

// pairFleet has two prefill and two decode workers, in this order.
func pairFleet(t testing.TB, more ...*node) *fleet {
	t.Helper()
	return newFleet(t, append([]*node{prefillNode(), prefillNode(), decodeNode(), decodeNode()}, more...)...)
}

// kvPick picks by the kv policy.
func (f *fleet) kvPick(p *routing.Prompt, tried ...*worker.Rank) routing.Decision {
	f.t.Helper()
	d, err := f.with(policy.KV{Options: policy.Defaults}).Pick(&f.scratch, p, tried)
	require.NoError(f.t, err)
	return d
}

func TestPair(t *testing.T) {
	f := pairFleet(t)
	ids := tokens(1, 4000)
	f.holds(1, radix.DomainKey{}, ids, 900, radix.TierGPU)
	f.ranks[1].SetExact(true)
	busy := f.ranks[2].Load.BeginLeg(5000, worker.Work{Prompt: 5000})
	defer busy.End()
	p := prompt(ids)

	d := f.kvPick(p)
	require.Equal(t, ranksOf(f.ranks[1], f.ranks[3]), ranksOf(d.Rank, d.Decode))
	require.Equal(t, []int{900, 1000, 3600, 400}, []int{d.Matched, d.Total, d.Cached, d.Uncached()}, "the overlap is the prefill rank's")
	require.Equal(t, 4000+512, d.DecodeTokens())
	p.Output = 100
	d = f.kvPick(p)
	require.Equal(t, 4000+100, d.DecodeTokens())
	p.Output = 100_000
	d = f.kvPick(p)
	require.Equal(t, 4000+512, d.DecodeTokens())

	d = f.kvPick(p, f.ranks[1], f.ranks[3])
	require.Equal(t, ranksOf(f.ranks[0], f.ranks[2]), ranksOf(d.Rank, d.Decode), "neither leg of what was tried")
	d = f.kvPick(p, f.ranks[3])
	require.Equal(t, ranksOf(f.ranks[1], f.ranks[2]), ranksOf(d.Rank, d.Decode), "the other leg may be used again")
	_, err := f.router.Pick(&f.scratch, p, f.ranks[:2])
	require.ErrorIs(t, err, routing.ErrNoPrefill)
	_, err = f.router.Pick(&f.scratch, p, f.ranks[2:])
	require.ErrorIs(t, err, routing.ErrNoDecode)
	require.ErrorIs(t, err, routing.ErrNoWorker)
}

// TestPairRanks: data-parallel ranks of both roles are candidates of their own.
func TestPairRanks(t *testing.T) {
	f := newFleet(t, &node{models: named(model), mode: "prefill", dp: 2}, &node{models: named(model), mode: "decode", dp: 2})
	ids := tokens(1, 4000)
	f.holds(1, radix.DomainKey{}, ids, 900, radix.TierGPU)
	f.ranks[1].SetExact(true)
	busy := f.ranks[2].Load.BeginLeg(5000, worker.Work{Prompt: 5000})
	defer busy.End()
	d := f.kvPick(prompt(ids))
	require.Equal(t, "http://n00:1#1 http://n01:1#1", d.Rank.ID()+" "+d.Decode.ID())
	p := prompt(ids)
	p.DP = 0
	d = f.kvPick(p)
	require.Equal(t, "http://n00:1#0 http://n01:1#0", d.Rank.ID()+" "+d.Decode.ID())
}

// TestPairStates: each role has its best ranks by itself, and a pair is as fit as its worse
// half.
func TestPairStates(t *testing.T) {
	const p0, p1, d0, d1, a = 0, 1, 2, 3, 4
	long := prompt(tokens(1, 4000))
	tests := []struct {
		name            string
		slow, dead      []int
		prefill, decode []int // possible; decode nil: alone
	}{
		{"all ready", nil, nil, []int{p0, p1}, []int{d0, d1}},
		{"a slow prefill worker", []int{p0}, nil, []int{p1}, []int{d0, d1}},
		{"slow prefill workers only", []int{p0, p1}, nil, []int{a}, nil},
		{"slow decode workers only", []int{d0, d1}, nil, []int{a}, nil},
		{"slow decode workers, and nobody else", []int{d0, d1}, []int{a}, []int{p0, p1}, []int{d0, d1}},
		{"a slow regular worker", []int{a}, nil, []int{p0, p1}, []int{d0, d1}},
		{"no decode worker", nil, []int{d0, d1}, []int{a}, nil},
		{"no prefill worker", nil, []int{p0, p1}, []int{a}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := pairFleet(t, tiny())
			lease := f.ranks[a].Load.Begin(1 << 20) // as little wanted as can be
			defer lease.End()
			for _, i := range tt.slow {
				f.force(i, worker.Slow)
			}
			for _, i := range tt.dead {
				f.force(i, worker.Dead)
			}
			d := f.kvPick(long)
			var prefills, decodes []*worker.Rank
			for _, i := range tt.prefill {
				prefills = append(prefills, f.ranks[i])
			}
			for _, i := range tt.decode {
				decodes = append(decodes, f.ranks[i])
			}
			require.True(t, slices.Contains(prefills, d.Rank))
			if decodes == nil {
				require.Nil(t, d.Decode)
				return
			}
			require.True(t, slices.Contains(decodes, d.Decode))
		})
	}
}

// TestConditionalPair: in a mixed cluster a prompt goes to a regular worker alone where it
// lacks few tokens there.
func TestConditionalPair(t *testing.T) {
	f := pairFleet(t, tiny())
	ids := tokens(1, 4000)
	alone := func(p *routing.Prompt, least int) string {
		r := f.with(policy.KV{Options: policy.Defaults})
		r.MinUncached = least
		d, err := r.Pick(&f.scratch, p, nil)
		require.NoError(t, err)
		if d.Decode != nil {
			return "pair"
		}
		require.Same(t, f.ranks[4], d.Rank)
		return d.Choice.Reason
	}
	const short, first = "alone: what it lacks is too short for a pair", "alone: its first token comes before a pair's"
	assert.Equal(t, short, alone(prompt(ids[:200]), 0))
	assert.Equal(t, first, alone(prompt(ids), 0), "nobody is busy, and a transfer takes time")
	lease := f.ranks[4].Load.Begin(1000)
	assert.Equal(t, "pair", alone(prompt(ids), 0))
	assert.Equal(t, short, alone(prompt(ids), 5000))
	assert.Equal(t, short, alone(prompt(ids[:200]), 0), "a queue does not make it worth a pair")
	assert.Equal(t, "pair", alone(prompt(ids[:200]), -1), "unless length never decides")
	lease.End()
	f.holds(4, radix.DomainKey{}, ids, 950, radix.TierGPU)
	f.ranks[4].SetExact(true)
	assert.Equal(t, short, alone(prompt(ids), 0))
}

// TestAdapterOfAPair: ranks with the adapter go first, and a pair has it when both halves do.
func TestAdapterOfAPair(t *testing.T) {
	with := func(mode string) *node { return &node{models: named(model, "sql"), mode: mode} }
	p := prompt(tokens(1, 4000))
	p.LoRA = "sql"
	for _, tt := range []struct {
		name  string
		nodes []*node
		want  []int // prefill and decode, or a rank alone
	}{
		{"a pair of those that have it", []*node{prefillNode(), with("prefill"), decodeNode(), with("decode")}, []int{1, 3}},
		{"a worker that has it", []*node{with("prefill"), decodeNode(), with("")}, []int{2}},
		{"a pair that has it", []*node{with("prefill"), with("decode"), tiny()}, []int{0, 1}},
		{"only half of the pair", []*node{prefillNode(), with("prefill"), decodeNode()}, []int{1, 2}},
	} {
		f := newFleet(t, tt.nodes...)
		d := f.kvPick(p)
		got := []*worker.Rank{d.Rank}
		if d.Decode != nil {
			got = append(got, d.Decode)
		}
		want := []*worker.Rank{}
		for _, i := range tt.want {
			want = append(want, f.ranks[i])
		}
		require.Equal(t, want, got, tt.name)
	}
}

// TestOverlapOfDecodeRank: overlap of a decode worker counts only where it has a prefix cache.
func TestOverlapOfDecodeRank(t *testing.T) {
	keeper := decodeNode()
	keeper.cache = true
	f := newFleet(t, prefillNode(), decodeNode(), keeper)
	ids := tokens(1, 4000)
	for i := 1; i <= 2; i++ {
		f.holds(i, radix.DomainKey{}, ids, 900, radix.TierGPU)
		f.ranks[i].SetExact(true)
	}
	x := f.with(policy.KV{Options: policy.Defaults}).Explain(&f.scratch, prompt(ids), 1)
	require.NoError(t, x.Err)
	require.Len(t, x.Decodes, 2)
	require.Equal(t, []int{0, 3600}, []int{x.Decodes[0].Candidate.Cached, x.Decodes[1].Candidate.Cached})
	require.InDelta(t, x.Decodes[0].Cost.Transfer/10, x.Decodes[1].Cost.Transfer, 1e-12)
}

// TestPairPolicies: every policy picks pairs.
func TestPairPolicies(t *testing.T) {
	f := pairFleet(t)
	for _, name := range policy.Names() {
		p, err := policy.New(name, policy.Defaults)
		require.NoError(t, err)
		for range 8 {
			d, err := f.with(p).Pick(&f.scratch, prompt(tokens(1, 400)), nil)
			require.NoError(t, err, name)
			require.True(t, slices.Contains(f.ranks[:2], d.Rank), name)
			require.True(t, slices.Contains(f.ranks[2:], d.Decode), name)
		}
	}
}

// TestExplainPair: the explanation is of the choice, and says why ranks without another half
// are left out.
func TestExplainPair(t *testing.T) {
	f := pairFleet(t, tiny())
	lease := f.ranks[4].Load.Begin(1000)
	defer lease.End()
	for _, p := range []policy.Policy{policy.KV{Options: policy.Defaults}, policy.RoundRobin{}, policy.Dynamo{Options: policy.Defaults}} {
		r := f.with(p)
		x := r.Explain(&f.scratch, prompt(tokens(1, 4000)), 42)
		d, err := r.Pick(&f.scratch, prompt(tokens(1, 4000)), nil) // with the seed 42, too
		require.NoError(t, err)
		require.Equal(t, ranksOf(d.Rank, d.Decode), ranksOf(x.First, x.Second), p.Name())
		require.Same(t, d.Decode, x.Decision.Decode)
		require.Len(t, x.Ranks, 3)
		require.Len(t, x.Decodes, 2)
		require.Positive(t, x.PairTTFT)
		roles := []worker.Role{x.Ranks[0].Role, x.Ranks[1].Role, x.Ranks[2].Role}
		require.Equal(t, []worker.Role{worker.RoleRegular, worker.RolePrefill, worker.RolePrefill}, roles)
	}
	f.force(2, worker.Dead)
	f.force(3, worker.Dead)
	x := f.router.Explain(&f.scratch, prompt(tokens(1, 4000)), 42)
	require.Same(t, f.ranks[4], x.Decision.Rank)
	require.Empty(t, x.Decodes)
	why := map[string]string{}
	for _, r := range x.Ranks {
		why[r.Rank.ID()] = r.Excluded
	}
	require.Equal(t, map[string]string{
		"http://n04:1": "", "http://n00:1": "is a prefill worker, and no decode worker is fit", "http://n01:1": "is a prefill worker, and no decode worker is fit",
		"http://n02:1": "is dead", "http://n03:1": "is dead",
	}, why)
}

// TestBreakerKeepsAway: a worker with an open breaker gets no request while others are there,
// one at a time when it is half open, and all again after an answer.
func TestBreakerKeepsAway(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // the clients' cleaners of connections end
		f := pairFleet(t)
		p := prompt(tokens(1, 400))
		bad := f.ranks[2].Worker
		fail := func(n int) {
			for range n {
				bad.Fault(time.Now())
			}
		}
		share := func() (n int) {
			r := f.with(policy.RoundRobin{})
			for range 10 {
				d, err := r.Pick(&f.scratch, p, nil)
				require.NoError(t, err)
				if d.Decode == f.ranks[2] {
					n++
				}
			}
			return n
		}
		require.Equal(t, 5, share())
		fail(3)
		require.Zero(t, share())
		x := f.with(policy.RoundRobin{}).Explain(&f.scratch, p, 1)
		require.Equal(t, "failed too often, and others did not", x.Ranks[len(x.Ranks)-1].Excluded)

		time.Sleep(time.Second)
		require.Len(t, f.with(policy.RoundRobin{}).Explain(&f.scratch, p, 1).Decodes, 2, "explaining takes no place")
		require.Equal(t, 1, share(), "a trial")
		fail(1)
		require.Zero(t, share())
		time.Sleep(2 * time.Second)
		require.Equal(t, 1, share())
		bad.Succeeded(time.Now())
		require.Equal(t, 5, share())

		fail(3)
		d, err := f.router.Pick(&f.scratch, p, f.ranks[3:])
		require.NoError(t, err, "when nobody else is left")
		require.Same(t, f.ranks[2], d.Decode)
	})
}

// TestTrialsAmongMany: of many choices at once, one tries a worker with a half-open breaker.
func TestTrialsAmongMany(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // the clients' cleaners of connections end
		f := pairFleet(t)
		r := f.with(policy.RoundRobin{})
		for range 3 {
			f.ranks[0].Worker.Fault(time.Now())
			f.ranks[3].Worker.Fault(time.Now())
		}
		time.Sleep(time.Second)
		var first, second atomic.Int32
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				var s routing.Scratch
				for range 50 {
					d, err := r.Pick(&s, prompt(tokens(1, 40)), nil)
					if assert.NoError(t, err) && d.Rank == f.ranks[0] {
						first.Add(1)
					}
					if d.Decode == f.ranks[3] {
						second.Add(1)
					}
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, first.Load())
		require.EqualValues(t, 1, second.Load())
		require.False(t, f.ranks[0].Worker.Breaker.Lets(time.Now().UnixNano()), "it is being tried")
		require.False(t, f.ranks[3].Worker.Breaker.Lets(time.Now().UnixNano()))
	})
}

func TestLeft(t *testing.T) {
	f := pairFleet(t)
	p := prompt(tokens(1, 40))
	for range 3 {
		f.ranks[0].Worker.Fault(time.Unix(1, 0)) // half open by now
	}
	require.True(t, f.router.HasUntried(p, f.ranks[1:3]))
	require.True(t, f.router.HasUntried(p, f.ranks[1:3]), "asking takes no place")
	require.False(t, f.router.HasUntried(p, f.ranks[:2]))
}
