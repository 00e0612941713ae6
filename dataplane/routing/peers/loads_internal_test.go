package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/cluster/codec"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

// listening has a group that hears and does not run, with one worker.
func listening(t *testing.T, f func(t *testing.T, g *Group, rank *worker.Rank)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		quiet := slog.New(slog.DiscardHandler)
		refuse := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no network here") }
		registry := worker.NewRegistry(worker.Config{Dial: refuse, Interval: time.Hour, Log: quiet}, nil)
		_, err := registry.Add("http://w:80")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = registry.Run(ctx) })
		defer time.Sleep(30 * time.Second) // probes
		defer running.Wait()
		defer cancel()
		shared := routing.New(registry, radix.New(radix.Config{}), nil, policy.RoundRobin{}, nil).Shared
		f(t, New(Config{ID: "here", Registry: registry, Predictions: shared, Log: quiet}), registry.Snapshot().Ranks[0])
	})
}

// TestNamesThatComeAndGo: a router with a token that begins and ends under one name after the other is taken
// for a bounded number of routers a minute.
func TestNamesThatComeAndGo(t *testing.T) {
	listening(t, func(t *testing.T, g *Group, _ *worker.Rank) {
		for minute := range uint64(3) {
			for i := range 1000 {
				m := message{id: fmt.Appendf(nil, "rogue-%016x", uint64(i)<<8|minute), number: 1}
				g.loads.onMessage("rogue", m.append(nil))
				m.number, m.last = 2, true
				g.loads.onMessage("rogue", m.append(nil))
			}
			require.Equal(t, (minute+1)*codec.MaxLeft, g.loads.lastKey)
			time.Sleep(codec.LeftFor + time.Second)
			g.loads.expire(time.Now())
		}
		m := message{id: []byte("honest-0123456789abcdef"), number: 1}
		g.loads.onMessage("honest", m.append(nil))
		require.Len(t, g.loads.peers, 1)
	})
}

// TestUnknownRanksAreBounded: a router that names ranks without end makes others remember a bounded
// number, and is believed about those that they have.
func TestUnknownRanksAreBounded(t *testing.T) {
	listening(t, func(t *testing.T, g *Group, rank *worker.Rank) {
		m := message{id: []byte("there")}
		for range 10 {
			m.number++
			m.ranks = m.ranks[:0]
			for i := range 10_000 {
				m.ranks = append(m.ranks, rankShare{uint64(m.number)<<32 | uint64(i), worker.RouterLoad{InFlight: 1}})
			}
			g.loads.onMessage("", m.append(nil))
		}
		require.LessOrEqual(t, len(g.loads.peers["there"].ranks), 1+maxUnknown)
		m.number++
		m.whole, m.ranks = true, []rankShare{{rank.IDHash(), worker.RouterLoad{InFlight: 3, Waiting: 2}}}
		g.loads.onMessage("", m.append(nil))
		m.number++
		g.loads.onMessage("", m.append(nil))
		require.EqualValues(t, 3, rank.Load.View(time.Now()).InFlight)
		require.Len(t, g.loads.peers["there"].ranks, 1)
	})
}

// TestWildLoads: whatever numbers other routers claim, a rank has its own again when they are gone.
func TestWildLoads(t *testing.T) {
	listening(t, func(t *testing.T, g *Group, rank *worker.Rank) {
		_ = rank.Load.Begin(500)
		before := rank.Load.View(time.Now())
		for i := range 4000 {
			n := int64(codec.Largest) * int64(i&1)
			m := message{id: fmt.Appendf(nil, "router-%d", i/2%8), number: int64(i + 1), ranks: []rankShare{
				{rank.IDHash(), worker.RouterLoad{InFlight: n, Waiting: n, Pending: n, Used: n, Held: n, Sent: int64(codec.Largest) - n}},
			}}
			g.loads.onMessage("", m.append(nil))
			v := rank.Load.View(time.Now())
			require.GreaterOrEqual(t, min(v.InFlight, v.Waiting, v.Pending, v.Used), int64(0), "message %d", i)
		}
		g.loads.forgetAll()
		after := rank.Load.View(time.Now())
		require.Equal(t, []int64{before.InFlight, before.Waiting, before.Used}, []int64{after.InFlight, after.Waiting, after.Used})
		require.InDelta(t, before.Pending, after.Pending, 16, "as exact as a float64 that was so large")
	})
}

// TestForgedRouters: the holder of a token is no other router, which it can neither silence nor end,
// and leaves room for others.
func TestForgedRouters(t *testing.T) {
	listening(t, func(t *testing.T, g *Group, rank *worker.Rank) {
		honest := message{id: []byte("honest-0123456789abcdef"), number: 1, ranks: []rankShare{{rank.IDHash(), worker.RouterLoad{InFlight: 3}}}}
		g.loads.onMessage("honest", honest.append(nil))
		forged := message{id: honest.id, number: 1 << 40}
		g.loads.onMessage("rogue", forged.append(nil))
		forged.last = true
		g.loads.onMessage("rogue", forged.append(nil))
		for _, id := range []string{"rogue", "rogue-", "rogue-0123456789abcde", "rogue-0123456789abcdeg", "rogue-x-0123456789abcdef"} {
			g.loads.onMessage("rogue", (&message{id: []byte(id), number: 1}).append(nil))
		}
		require.EqualValues(t, 7, g.Status().Malformed)
		require.EqualValues(t, 3, rank.Load.View(time.Now()).InFlight)
		for i := range 2 * codec.MaxMembers {
			g.loads.onMessage("rogue", (&message{id: fmt.Appendf(nil, "rogue-%016x", i), number: 1}).append(nil))
		}
		require.Len(t, g.Status().Peers, 1+codec.MaxOwned)
		honest.number++
		honest.ranks[0].InFlight = 4
		g.loads.onMessage("honest", honest.append(nil))
		require.EqualValues(t, 4, rank.Load.View(time.Now()).InFlight)
	})
}

// TestListsThatNoRouterSends are refused before they cost anything.
func TestListsThatNoRouterSends(t *testing.T) {
	listening(t, func(t *testing.T, g *Group, _ *worker.Rank) {
		g.loads.onMessage("", (&message{id: []byte("\xff"), number: 1}).append(nil)) // no label of a metric
		require.Empty(t, g.Status().Peers)
		many := message{id: []byte("there"), number: 1}
		for i := range maxSent + 1 {
			many.sent = append(many.sent, prompt{number: uint64(i), fingerprints: []uint32{1}})
		}
		g.loads.onMessage("", many.append(nil))
		many.sent, many.done = nil, make([]int64, maxDone+1)
		g.loads.onMessage("", many.append(nil))
		require.EqualValues(t, 3, g.Status().Malformed)
		many.done = many.done[1:]
		g.loads.onMessage("", many.append(nil))
		require.EqualValues(t, 1, g.Status().Received)
	})
}
