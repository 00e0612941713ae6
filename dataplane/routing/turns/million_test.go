//go:build !race

package turns_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing/turns"
)

// TestMillionNames: clients with a million names, or as many prompts, displace no agent.
func TestMillionNames(t *testing.T) {
	c := newClient(t)
	const agents = 200
	prompts, ids := make([][]uint64, agents), make([]turns.ID, agents)
	for turn := range 5 {
		for a := range prompts {
			prompts[a] = append(prompts[a], units(uint64(a*100+turn), 100)...)
			ids[a] = c.send(0, prompts[a]).ID
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	prefixes := make([]uint64, 3)
	for i := range 1_000_000 {
		name := uint64(0)
		if i%2 == 0 {
			name = r.Uint64()
		}
		for p := range prefixes {
			prefixes[p] = r.Uint64()
		}
		f := c.table.Find(prefixes, name, false)
		c.table.Begin(&f, prefixes, c.now)
		c.table.End(&f, c.now)
		c.now++
	}
	kept := 0
	for a := range prompts {
		if f := c.send(0, append(prompts[a], 1)); f.ID == ids[a] {
			kept++
		}
	}
	require.GreaterOrEqual(t, kept, agents*95/100)
}
