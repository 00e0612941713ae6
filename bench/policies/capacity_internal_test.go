package policies

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFindUsers(t *testing.T) {
	sessions := recordedSessions(t)
	u := Users{Warmup: time.Minute, For: 4 * time.Minute}
	cfg := Config{Workers: 2, CacheTokens: 300_000, Seed: 1, Service: Service{PrefillTokensPerSecond: 40_000}}
	names, said := []string{"kv", "round-robin"}, 0
	find := func(o Objective) *Report {
		r, err := FindUsers(t.Context(), "a <b>", sessions, u, cfg, names, o, 2, func(string) { said++ })
		require.NoError(t, err)
		return r
	}
	r := find(Objective{TTFT: 4 * time.Second})
	c := r.Capacity
	kv, turns := c.Policies[0], c.Policies[1]
	require.Greater(t, kv.Users, turns.Users, "a router that knows caches carries more")
	require.LessOrEqual(t, kv.At.TTFT, 4*time.Second)
	require.Equal(t, "TTFT", kv.Limit)
	require.LessOrEqual(t, kv.Sure, kv.Users)
	require.Greater(t, kv.Never, kv.Users)
	require.Equal(t, len(kv.All)+len(turns.All), said)
	for _, p := range kv.All {
		if p.Users <= kv.Sure || p.Users >= kv.Never {
			require.Equal(t, p.Users <= kv.Sure, p.Keeps)
		}
		require.Equal(t, p.Keeps, p.TTFT <= 4*time.Second && p.ITL <= 50*time.Millisecond)
	}
	require.Equal(t, kv.Users, r.Users.N, "the comparison is at the most that any policy carries")
	require.Less(t, find(Objective{TTFT: time.Second}).Capacity.Policies[0].Users, kv.Users)
	tokens := find(Objective{TTFT: time.Hour, ITL: 17 * time.Millisecond}).Capacity.Policies[0]
	require.Equal(t, "ITL", tokens.Limit)
	require.LessOrEqual(t, tokens.At.ITL, 17*time.Millisecond)

	var table bytes.Buffer
	require.NoError(t, r.Table(&table))
	assert.Contains(t, table.String(), "Users that 2 workers carry at p95 of TTFT <= 4s, ITL <= 50ms")
}

// The first users of many are the users of few.
func TestFewerUsersOfAPlan(t *testing.T) {
	u := Users{Warmup: time.Minute, For: 4 * time.Minute}.withDefaults()
	cfg := Config{Workers: 2, CacheTokens: 300_000, Seed: 1}.withDefaults()
	f := &finder{ctx: t.Context(), users: u, cfg: cfg, seeds: 1, sessions: recordedSessions(t), laid: map[int][]*plan{}}
	some, err := f.plans(11)
	require.NoError(t, err)
	u.N = 11
	s, err := newUserStudy(f.sessions, u, cfg, nil)
	require.NoError(t, err)
	a, err := simulate(t.Context(), some[0], cfg, "kv", func(int) {})
	require.NoError(t, err)
	b, err := simulate(t.Context(), s.plan, cfg, "kv", func(int) {})
	require.NoError(t, err)
	require.Equal(t, b.result().TTFTs, a.result().TTFTs)
}

func TestFindUsersRefuses(t *testing.T) {
	sessions := recordedSessions(t)
	for _, c := range []struct {
		o     Objective
		u     Users
		seeds int
		names []string
	}{
		{Objective{TTFT: -1}, Users{}, 1, []string{"kv"}},
		{Objective{}, Users{Open: true}, 1, []string{"kv"}},
		{Objective{}, Users{}, 0, []string{"kv"}},
		{Objective{}, Users{}, 1, nil},
		{Objective{}, Users{For: -1}, 1, []string{"kv"}},
	} {
		_, err := FindUsers(t.Context(), "x", sessions, c.u, Config{}, c.names, c.o, c.seeds, nil)
		require.ErrorIs(t, err, ErrConfig)
	}
	_, err := FindUsers(t.Context(), "x", sessions, Users{}, Config{}, []string{"best"}, Objective{}, 1, nil)
	require.Error(t, err)
}
