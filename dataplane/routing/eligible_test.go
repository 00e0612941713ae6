package routing_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

// candidates returns the ids of the policy's candidates.
func (f *fleet) candidates(p *routing.Prompt, tried ...*worker.Rank) ([]string, error) {
	var ids []string
	for f.spy.pick = 0; ; f.spy.pick++ {
		d, err := f.router.Pick(&f.scratch, p, tried)
		if err != nil {
			return nil, err
		}
		ids = append(ids, d.Rank.ID())
		if f.spy.pick+1 == len(f.spy.candidates) {
			return ids, nil
		}
	}
}

// window is a node whose model takes so many tokens.
func window(most int) *node {
	return &node{models: fmt.Sprintf(`{"id":%q,"max_model_len":%d}`, model, most)}
}

func TestCandidates(t *testing.T) {
	const n0, n1, n2 = "http://n00:1", "http://n01:1", "http://n02:1"
	two := func() []*node { return []*node{tiny(), tiny()} }
	tests := []struct {
		name    string
		nodes   []*node
		prepare func(f *fleet)
		model   string
		dp      int
		output  int
		tried   []int
		want    []string
		err     error
	}{
		{name: "all that are ready", nodes: two(), model: model, dp: -1, want: []string{n0, n1}},
		{name: "any model", nodes: two(), model: "", dp: -1, want: []string{n0, n1}},
		{name: "the default model", nodes: two(), model: "default", dp: -1, want: []string{n0, n1}},
		{name: "an adapter of the model", nodes: two(), model: "tiny:sql", dp: -1, want: []string{n0, n1}},
		{name: "an adapter by its own name", nodes: []*node{tiny(), {models: named(model, "sql")}}, model: "sql", dp: -1, want: []string{n1}},
		{name: "a model that nobody serves", nodes: two(), model: "big", dp: -1, err: routing.ErrUnknownModel},
		{name: "an adapter of a model that nobody serves", nodes: two(), model: "big:sql", dp: -1, err: routing.ErrUnknownModel},
		{name: "one of two models", nodes: []*node{tiny(), {models: named("big")}}, model: "big", dp: -1, want: []string{n1}},
		{name: "any of two models", nodes: []*node{tiny(), {models: named("big")}}, model: "", dp: -1, err: routing.ErrAmbiguous},
		{
			name: "any of two models, one of them ready", nodes: []*node{tiny(), {models: named("big")}}, model: "", dp: -1,
			prepare: func(f *fleet) { f.force(1, worker.Dead) }, want: []string{n0},
		},
		{name: "not the one that was tried", nodes: two(), model: model, dp: -1, tried: []int{0}, want: []string{n1}},
		{name: "all were tried", nodes: two(), model: model, dp: -1, tried: []int{1, 0}, err: routing.ErrNoWorker},
		{
			name: "a slow one only if need be", nodes: two(), model: model, dp: -1,
			prepare: func(f *fleet) { f.force(0, worker.Slow) }, want: []string{n1},
		},
		{
			name: "slow ones", nodes: two(), model: model, dp: -1,
			prepare: func(f *fleet) { f.force(0, worker.Slow); f.force(1, worker.Slow) }, want: []string{n0, n1},
		},
		{
			name: "a slow one after the ready one was tried", nodes: two(), model: model, dp: -1, tried: []int{1},
			prepare: func(f *fleet) { f.force(0, worker.Slow) }, want: []string{n0},
		},
		{
			name: "a dead one never", nodes: two(), model: model, dp: -1,
			prepare: func(f *fleet) { f.force(0, worker.Dead); f.force(1, worker.Dead) }, err: routing.ErrNoWorker,
		},
		{
			name: "one that answers 503 never", nodes: two(), model: model, dp: -1,
			prepare: func(f *fleet) { f.force(0, worker.Probing); f.force(1, worker.Probing) }, err: routing.ErrNoWorker,
		},
		{
			name: "a draining one never", nodes: two(), model: model, dp: -1,
			prepare: func(f *fleet) { f.ranks[0].Worker.Drain(true) }, want: []string{n1},
		},
		{
			name: "every rank", nodes: []*node{tiny(), {models: named(model), dp: 2}}, model: model, dp: -1,
			want: []string{n0, n1 + "#0", n1 + "#1"},
		},
		{name: "one rank of each", nodes: []*node{tiny(), {models: named(model), dp: 2}}, model: model, dp: 0, want: []string{n0, n1 + "#0"}},
		{name: "a rank that one has", nodes: []*node{tiny(), {models: named(model), dp: 2}}, model: model, dp: 1, want: []string{n1 + "#1"}},
		{name: "a rank that nobody has", nodes: two(), model: model, dp: 5, err: routing.ErrNoWorker},
		{
			name: "no pair for a short prompt", nodes: []*node{{models: named(model), mode: "prefill"}, {models: named(model), mode: "decode"}, tiny()},
			model: model, dp: -1, want: []string{n2},
		},
		{
			name: "pairs only", nodes: []*node{{models: named(model), mode: "prefill"}, {models: named(model), mode: "decode"}},
			model: model, dp: -1, want: []string{n0},
		},
		{
			name: "half a pair", nodes: []*node{{models: named(model), mode: "prefill"}}, model: model, dp: -1, err: routing.ErrNoDecode,
		},
		{
			name: "the other half", nodes: []*node{{models: named(model), mode: "decode"}}, model: model, dp: -1, err: routing.ErrNoPrefill,
		},
		{name: "a worker by the other word for no mode", nodes: []*node{{models: named(model), mode: "null"}}, model: model, dp: -1, want: []string{n0}},
		{name: "one with room for the prompt", nodes: []*node{window(20), window(21)}, model: model, dp: -1, want: []string{n1}},
		{name: "one with room for prompt and answer", nodes: []*node{window(29), window(30), tiny()}, output: 10, model: model, dp: -1, want: []string{n1, n2}},
		{
			name: "none with room, which is the worker's to say", nodes: []*node{window(8), window(20)}, model: model, dp: -1,
			want: []string{n0, n1},
		},
		{
			name: "a slow one with room", nodes: []*node{window(20), window(21)}, model: model, dp: -1,
			prepare: func(f *fleet) { f.force(1, worker.Slow) }, want: []string{n1},
		},
		{name: "nobody at all", model: model, dp: -1, err: routing.ErrNoWorker},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, tt.nodes...)
			if tt.prepare != nil {
				tt.prepare(f)
			}
			var tried []*worker.Rank
			for _, i := range tt.tried {
				tried = append(tried, f.ranks[i])
			}
			p := prompt(tokens(1, 20))
			p.Model, p.DP, p.MaxTokens = tt.model, tt.dp, tt.output
			got, err := f.candidates(p, tried...)
			require.ErrorIs(t, err, tt.err)
			require.Equal(t, tt.want, got, "candidates")
		})
	}
}

// TestBeforeTheFirstDescription: no model is unknown until a worker has told its models.
func TestBeforeTheFirstDescription(t *testing.T) {
	registry := worker.NewRegistry(worker.Config{
		Log: slog.New(slog.DiscardHandler),
		Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		},
	}, nil)
	w, err := registry.Add("http://a:1")
	require.NoError(t, err)
	defer func() { require.NoError(t, registry.Remove(w.URL)) }()
	view := func() *ingest.View { return &ingest.View{} }
	r := routing.New(registry, radix.New(radix.Config{}), view, policy.KV{}, func() uint64 { return 0 })
	_, err = r.Pick(new(routing.Scratch), prompt(tokens(1, 4)), nil)
	require.ErrorIs(t, err, routing.ErrNoWorker)
}

func TestServes(t *testing.T) {
	tests := []struct {
		name   string
		models []string
		model  string
		want   bool
	}{
		{"named", []string{"a", "b"}, "b", true},
		{"not named", []string{"a", "b"}, "c", false},
		{"any", []string{"a"}, "", true},
		{"default", []string{"a"}, "default", true},
		{"adapter", []string{"a"}, "a:x", true},
		{"another's adapter", []string{"a"}, "b:x", false},
		{"a name with a colon", []string{"a:x"}, "a:x", true},
		{"a worker that does not say", nil, "a", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, routing.Serves(&worker.Info{Models: tt.models}, tt.model), "Serves(%v, %q)", tt.models, tt.model)
		})
	}
}

// TestPolicyChooses: the router leaves the choice to the policy, with the load that it knows.
func TestPolicyChooses(t *testing.T) {
	f := newFleet(t, tiny(), tiny(), tiny())
	ids := tokens(1, 400)
	f.holds(0, radix.DomainKey{}, ids, 90, radix.TierGPU)
	f.holds(1, radix.DomainKey{}, ids, 60, radix.TierGPU)
	kv := f.with(policy.KV{Options: policy.Defaults})
	pick := func() *worker.Rank {
		d, err := kv.Pick(&f.scratch, prompt(ids), nil)
		require.NoError(t, err)
		return d.Rank
	}
	require.Same(t, f.ranks[0], pick(), "the one that holds most")
	lease := f.ranks[0].Load.Begin(1000)
	require.Same(t, f.ranks[1], pick(), "the next, while the first is busy")
	lease.End()
	require.Same(t, f.ranks[0], pick(), "the first again")
	require.Equal(t, "kv", kv.Policy().Name())

	second := f.ranks[1].Load.Begin(77)
	defer second.End()
	f.pick(prompt(ids))
	require.Equal(t, policy.Candidate{
		ID: f.ranks[1].IDHash(), Cached: 240, Pending: 77, InFlight: 1, Waiting: 1, Used: 77,
	}, f.spy.candidates[1])
}
