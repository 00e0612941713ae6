package routing_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

func TestSessionKeepsItsRank(t *testing.T) {
	f := newFleet(t, tiny(), tiny(), tiny(), tiny())
	f.holds(2, radix.DomainKey{}, tokens(1, 400), 90, radix.TierGPU)
	r := f.with(policy.Sticky{Policy: policy.KV{Options: policy.Defaults}})
	r.Sessions = routing.NewSessions()
	send := func(session string, ids []uint32, tried ...*worker.Rank) routing.Decision {
		p := prompt(ids)
		p.Session = routing.SessionKey(session)
		d, err := r.Pick(&f.scratch, p, tried)
		require.NoError(t, err)
		r.Sent(&f.scratch, &d)
		return d
	}
	require.Same(t, f.ranks[2], send("a", tokens(1, 400)).Rank, "a first request goes where it is warm")
	for range 10 {
		d := send("a", tokens(2, 400))
		require.Same(t, f.ranks[2], d.Rank, "and its session stays")
		require.Equal(t, "its session's rank", d.Choice.Why)
	}
	require.NotEqual(t, "its session's rank", send("", tokens(2, 400)).Choice.Why)

	var leases []worker.Lease
	for range 3 { // 3 of 4 requests in flight: above 1.25 times the mean
		leases = append(leases, f.ranks[2].Load.Begin(1000))
	}
	moved := send("a", tokens(2, 400))
	require.NotSame(t, f.ranks[2], moved.Rank, "overloaded")
	for i := range leases {
		leases[i].End()
	}
	require.Same(t, moved.Rank, send("a", tokens(2, 400)).Rank, "it has moved")
	other := send("a", tokens(2, 400), moved.Rank)
	require.NotSame(t, moved.Rank, other.Rank, "its rank was tried already")
	require.Same(t, other.Rank, send("a", tokens(2, 400)).Rank)
}

func TestSessionsAreApart(t *testing.T) {
	f := newFleet(t, tiny(), tiny(), tiny(), tiny())
	r := f.with(policy.Sticky{Policy: policy.RoundRobin{}})
	r.Sessions = routing.NewSessions()
	const n = 2000
	rank := map[string]*worker.Rank{}
	for round := range 3 {
		for i := range n {
			name := fmt.Sprint("session ", i)
			p := prompt(tokens(1, 40))
			p.Session = routing.SessionKey(name)
			d, err := r.Pick(&f.scratch, p, nil)
			require.NoError(t, err)
			r.Sent(&f.scratch, &d)
			if round > 0 {
				require.Same(t, rank[name], d.Rank)
			}
			rank[name] = d.Rank
		}
	}
}

// TestSessionsAtOnce: a session that two requests move at once has one of the two ranks, never
// a third one's.
func TestSessionsAtOnce(t *testing.T) {
	f := newFleet(t, tiny(), tiny(), tiny())
	sessions := routing.NewSessions()
	var wg sync.WaitGroup
	for g := range 2 {
		wg.Go(func() {
			var s routing.Scratch
			r := f.with(&spy{pick: g})
			r.Sessions = sessions
			for i := range 3000 {
				p := prompt(tokens(1, 20))
				p.Session = routing.SessionKey(strconv.Itoa(i % 50))
				d, err := r.Pick(&s, p, nil)
				if err != nil {
					t.Error(err)
					return
				}
				r.Sent(&s, &d)
			}
		})
	}
	wg.Wait()
	watcher := &spy{}
	r := f.with(watcher)
	r.Sessions = sessions
	for i := range 50 {
		p := prompt(tokens(1, 20))
		p.Session = routing.SessionKey(strconv.Itoa(i))
		_, err := r.Pick(&f.scratch, p, nil)
		require.NoError(t, err)
		require.Contains(t, []uint64{0, f.ranks[0].IDHash(), f.ranks[1].IDHash()}, watcher.req.Home)
	}
}

func TestSessionKey(t *testing.T) {
	require.Zero(t, routing.SessionKey(""))
	require.Equal(t, routing.SessionKey("abc"), routing.SessionKey([]byte("abc")))
	require.NotEqual(t, routing.SessionKey("abc"), routing.SessionKey("abd"))
}

func TestAdapterAffinity(t *testing.T) {
	f := newFleet(t, tiny(), &node{models: named(model, "sql")}, &node{models: named(model, "sql", "poem")}, tiny())
	ids := func(model, lora string, tried ...*worker.Rank) (hosts []int) {
		p := prompt(tokens(1, 20))
		p.Model, p.LoRA = model, lora
		got, err := f.candidates(p, tried...)
		require.NoError(t, err)
		for _, id := range got {
			for i, r := range f.ranks {
				if r.ID() == id {
					hosts = append(hosts, i)
				}
			}
		}
		return hosts
	}
	require.Equal(t, []int{1, 2}, ids("tiny:sql", "sql"))
	require.Equal(t, []int{2}, ids("tiny:poem", "poem"))
	require.Equal(t, []int{0, 1, 2, 3}, ids("tiny:new", "new"), "nobody has it: anybody may load it")
	require.Equal(t, []int{0, 1, 3}, ids("tiny:poem", "poem", f.ranks[2]), "who has it failed")
	require.Equal(t, []int{0, 1, 2, 3}, ids(model, ""))
}
