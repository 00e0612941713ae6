package policies

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scene is a scene of two workers and a short time.
func scene(t *testing.T, m *Material, name string) *Scene {
	t.Helper()
	all := m.Scenes()
	i := slices.IndexFunc(all, func(s *Scene) bool { return s.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	all[i].Config.Workers = 2
	if u, ok := all[i].traffic.(*userTraffic); ok {
		u.Warmup, u.For = time.Minute, 3*time.Minute
	}
	return all[i]
}

func TestGrid(t *testing.T) {
	m := &Material{Sessions: recordedSessions(t), Seed: 1}
	said := 0
	g := &Grid{Shares: []float64{0.3, 1}, Policies: []string{"kv", "round-robin", "sticky-sessions", Greedy}, Seed: 1, Runs: 2, Progress: func(string) { said++ }}
	var cells []*Cell
	for _, name := range []string{"agents, closed, pool 0.4", "agents, open, pool 1, host tier"} {
		some, err := g.Scene(t.Context(), scene(t, m, name))
		require.NoError(t, err)
		require.Len(t, some, 2)
		for _, c := range some {
			require.NotContains(t, []string{"kv", Greedy, ""}, c.BestMean)
			require.Positive(t, c.Mean)
			for _, r := range c.Results {
				require.Equal(t, len(r.TTFTs), r.Requests)
			}
		}
		kv := []*Result{resultOf(some[0].Results, "kv"), resultOf(some[1].Results, "kv")}
		require.Less(t, kv[0].TTFT.Mean, kv[1].TTFT.Mean, "more load, longer waits")
		require.Greater(t, some[1].Load, some[0].Load)
		cells = append(cells, some...)
	}
	require.Equal(t, 4, said)
	var table strings.Builder
	require.NoError(t, WriteCells(&table, cells))
	lines := strings.Split(table.String(), "\n")
	require.Len(t, lines, 4+1+1+1+2+1)
	cell := slices.MaxFunc(cells, func(a, b *Cell) int { return int(1e6 * (a.Worst() - b.Worst())) })
	assert.Contains(t, lines[1], cell.Scene, "the worst comes first")
	again, err := g.Scene(t.Context(), scene(t, m, "agents, closed, pool 0.4"))
	require.NoError(t, err)
	require.Equal(t, cells[:2], again)
}

// Every scene of every kind can be laid out, and seeds make other services.
func TestScenes(t *testing.T) {
	m := &Material{Sessions: recordedSessions(t), Trace: tiny(1, 30), Seed: 1}
	names := map[string]bool{}
	for _, s := range m.Scenes() {
		require.False(t, names[s.Name], s.Name)
		names[s.Name] = true
		require.NoError(t, s.Config.check(), s.Name)
	}
	require.Greater(t, len(names), 70)
	for i := range kinds {
		f := &kinds[i]
		input := func(seed uint64) (sum int) {
			requests := f.make(seed, f.light)
			require.InEpsilon(t, f.light*f.length.Seconds(), len(requests), 0.5, f.name)
			last := time.Duration(0)
			for k := range requests {
				require.GreaterOrEqual(t, requests[k].At, last)
				require.Less(t, requests[k].At, f.length)
				last, sum = requests[k].At, sum+requests[k].Input()/len(requests)
			}
			return sum
		}
		require.Equal(t, input(3), input(3), f.name)
		require.NotEqual(t, input(3), input(4), f.name)
	}
	for seed := range uint64(20) {
		for _, s := range MakeSessions(seed, 20) {
			require.NotEmpty(t, s.Turns)
			for k, turn := range s.Turns {
				require.Less(t, turn.Of, k)
				require.LessOrEqual(t, turn.Keep*s.Block, turn.Input)
				if k > 0 {
					require.GreaterOrEqual(t, turn.At, s.Turns[k-1].At)
				}
			}
		}
	}
}

// No policy finds more than a cache without an end.
func TestNoPolicyBeatsTheBound(t *testing.T) {
	for seed := range uint64(4) {
		study := tinyUsers(t, seed, nil)
		for _, name := range Names() {
			s, err := simulate(t.Context(), study.plan, study.cfg, name, func(int) {})
			require.NoError(t, err)
			got := s.result().Hits
			require.Positive(t, got)
			require.LessOrEqual(t, got, s.arrivals.bound()+0.02, name) // A queue may take requests in another order.
		}
	}
}
