package routing_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

// TestExplainedIsPicked: Explain and Pick decide the same by the same draw, in any state and
// with any policy.
func TestExplainedIsPicked(t *testing.T) { bubble(t, 5, checkExplainedIsPicked) }

func checkExplainedIsPicked(f *fleet) {
	t := f.t
	rnd := rand.New(rand.NewPCG(1, 2))
	var leases []worker.Lease
	for i := range f.ranks {
		for id := range uint32(6) {
			if rnd.IntN(2) == 0 {
				f.holds(i, radix.DomainKey{}, tokens(id, 400), 1+rnd.IntN(100), radix.TierGPU)
			}
		}
		f.ranks[i].SetExact(true)
		for range rnd.IntN(4) {
			leases = append(leases, f.ranks[i].Load.Begin(rnd.IntN(3000)))
		}
		// No rate: the remaining tokens must be the same at both choices, however much later
		// the second one comes.
		f.ranks[i].Load.Report(time.Now(), worker.Report{Running: int64(rnd.IntN(9)), Most: 8, Pool: 10_000, Used: int64(rnd.IntN(9000))})
	}
	f.force(4, worker.Dead)
	believed := routing.NewApproxIndex(0)
	for _, r := range f.ranks {
		believed.Up(r.Worker, r.Worker.Info())
	}
	for _, name := range policy.Names() {
		for _, temperature := range []float64{0, 0.5} {
			inner, err := policy.New(name, policy.Options{OverlapWeight: 1, Temperature: temperature})
			require.NoError(t, err)
			seed := uint64(0)
			r := routing.New(f.registry, f.index, func() *ingest.View { return &ingest.View{Shapes: f.shapes} },
				policy.Sticky{Policy: inner}, func() uint64 { return seed })
			r.Sessions, r.Approx = routing.NewSessions(), believed
			for range 40 {
				seed = rnd.Uint64()
				p := prompt(tokens(uint32(rnd.IntN(8)), 40+rnd.IntN(360)))
				p.Session = routing.SessionKey(strconv.Itoa(rnd.IntN(3)))
				x := r.Explain(new(routing.Scratch), p, seed)
				require.NoError(t, x.Err)
				again := r.Explain(new(routing.Scratch), p, seed)
				require.Same(t, x.Decision.Rank, again.Decision.Rank, "explaining changes nothing")
				d, err := r.Pick(&f.scratch, p, nil)
				require.NoError(t, err)
				require.Same(t, x.Decision.Rank, d.Rank, name)
				require.Equal(t, x.Decision.Choice, d.Choice, name)
				require.Len(t, x.Ranks, 5)
				require.Contains(t, x.Ranks[4].Excluded, "dead")
				if rnd.IntN(3) == 0 {
					r.Sent(&f.scratch, &d)
					r.Failed(&f.scratch, &d)
				}
			}
		}
	}
	for i := range leases {
		leases[i].End()
	}
}

func TestExplainsNobody(t *testing.T) {
	f := newFleet(t, tiny(), &node{models: named("big")}, &node{models: named(model), mode: "prefill"}, &node{models: named(model), dp: 2})
	p := prompt(tokens(1, 20))
	p.DP = 5
	x := f.router.Explain(&f.scratch, p, 1)
	require.ErrorIs(t, x.Err, routing.ErrNoWorker)
	var why []string
	for _, r := range x.Ranks {
		why = append(why, r.Excluded)
	}
	const rank = "is not the data-parallel rank asked for"
	require.Equal(t, []string{rank, "serves another model", rank, rank, rank}, why)
}

// TestTrustScalesCredit: a rank with wrong overlaps is credited with less, and the explanation
// shows it.
func TestTrustScalesCredit(t *testing.T) {
	f := newFleet(t, tiny(), tiny())
	ids := tokens(1, 400)
	f.holds(0, radix.DomainKey{}, ids, 90, radix.TierGPU)
	f.holds(1, radix.DomainKey{}, ids, 80, radix.TierGPU)
	for _, r := range f.ranks {
		r.SetExact(true)
	}
	cached, _ := f.pick(prompt(ids))
	require.Equal(t, []int{360, 320}, cached)
	for range 20 {
		f.ranks[0].Trust.Observe(time.Now(), 1000, 500)
	}
	cached, d := f.pick(prompt(ids))
	require.InDelta(t, 180, cached[0], 1)
	require.Equal(t, 320, cached[1])
	require.Equal(t, 360, d.Cached, "what is expected of the answer is what is known")
	x := f.with(policy.KV{Options: policy.Defaults}).Explain(&f.scratch, prompt(ids), 1)
	require.Same(t, f.ranks[1], x.Decision.Rank)
	require.InDelta(t, 0.5, x.Ranks[0].Credit, 1e-3)
	require.Equal(t, 360, x.Ranks[0].Cached)

	// Silence.
	f.ranks[1].Trust.Confirmed(time.Now().Add(-time.Hour))
	cached, _ = f.pick(prompt(ids))
	require.Zero(t, cached[1])
}

// TestApproxPolicyUsesAnswers: sglang-router's rule gets overlap by answers, not by events.
func TestApproxPolicyUsesAnswers(t *testing.T) {
	f := newFleet(t, tiny(), tiny())
	ids := tokens(1, 4000)
	f.holds(0, radix.DomainKey{}, ids, 900, radix.TierGPU)
	f.ranks[0].SetExact(true)
	r := f.with(policy.Approx{})
	r.Approx = routing.NewApproxIndex(0)
	for _, rank := range f.ranks {
		r.Approx.Up(rank.Worker, rank.Worker.Info())
	}
	for range 3 {
		d, err := r.Pick(&f.scratch, prompt(ids), f.ranks[:1])
		require.NoError(t, err)
		require.Equal(t, routing.Answers, d.Source)
		r.Sent(&f.scratch, &d)
		r.Answered(&f.scratch, prompt(ids), &d, 4000, 0)
	}
	d, err := r.Pick(&f.scratch, prompt(ids), nil)
	require.NoError(t, err)
	require.Same(t, f.ranks[1], d.Rank)
	require.Positive(t, d.Cached)
	require.Equal(t, "highest overlap", d.Choice.Why)
}
