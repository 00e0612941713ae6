package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/testkit"
)

// changeWeights changes the weights of an engine: its backend leaves the old name of its pages,
// and connects with another one.
func (e *tierEngine) changeWeights(socket, rank, weights string) *tierEngine {
	e.t.Helper()
	_, err := e.conn.Write(e.frame(tierRetire, nil))
	require.NoError(e.t, err)
	require.NoError(e.t, e.conn.Close())
	return dialTierWeights(e.t, socket, rank, weights)
}

// A router counts on pages of a tier only for engines with the weights that computed them, and on
// none after a clear.
func TestRoutersForgetPagesOfOtherWeights(t *testing.T) {
	t.Parallel()
	s := startTierSite(t)
	ids, none := prompt(400, 1), tierOverlap{}
	testkit.AwaitThat(t, func() bool { _, got, _ := s.explain(ids); return len(got) == 2 }, func() string { return "not both workers are known" })
	first, second := dialTierEngine(t, s.sockets[0], "0/1"), dialTierEngine(t, s.sockets[1], "0/1")
	first.store(ids)
	whole := (len(ids) - 1) / page * page // a prompt's last token is always computed
	s.await(ids, tierOverlap{tier: whole}, tierOverlap{remote: whole})

	second = second.changeWeights(s.sockets[1], "0/1", "second")
	s.await(ids, tierOverlap{tier: whole}, none)
	second.store(ids)
	s.await(ids, tierOverlap{tier: whole}, tierOverlap{tier: whole})
	first = first.changeWeights(s.sockets[0], "0/1", "second")
	s.await(ids, tierOverlap{remote: whole}, tierOverlap{tier: whole})

	first.store(ids)
	s.await(ids, tierOverlap{tier: whole}, tierOverlap{tier: whole})
	first.ask(tierClear, make([]byte, 4))
	second.ask(tierClear, make([]byte, 4)) // the two tiers of this site are no peers
	s.await(ids, none, none)
	second.store(ids)
	s.await(ids, tierOverlap{remote: whole}, tierOverlap{tier: whole})
}
