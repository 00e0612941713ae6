package routing_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// TestPrefixes: the common beginnings of the last prompts, nested as they are, with the number of
// requests. Prompts of other caches, and beginnings below a page, are no prefix.
func TestPrefixes(t *testing.T) {
	f := newFleet(t, tiny(), tiny())
	r := f.with(policy.LeastLoad{})
	pick := func(p *routing.Prompt) {
		t.Helper()
		_, err := r.Pick(&f.scratch, p, nil)
		require.NoError(t, err)
		clear(p.Tokens) // the next request on the connection uses the memory
		clear(p.Text)
	}
	pick(&routing.Prompt{Model: model, DP: -1}) // of a policy that needs no prompts
	none, kept, _ := r.Prefixes()
	require.Empty(t, none)
	require.Zero(t, kept)

	system, session := tokens(1, 40), tokens(2, 30)
	turn := func(parts ...[]uint32) *routing.Prompt {
		var ids []uint32
		for _, part := range parts {
			ids = append(ids, part...)
		}
		return prompt(ids)
	}
	pick(turn(system, tokens(3, 9)))
	pick(turn(system, session))
	pick(turn(system, session, tokens(4, 5)))
	pick(turn(system, session, tokens(5, 5)))
	pick(turn(tokens(6, 3), tokens(7, 20)))
	pick(turn(tokens(6, 3), tokens(8, 20))) // below a page in common
	salted := turn(system, session)
	salted.Salt = "tenant"
	pick(salted)
	opaque := turn(system, session)
	opaque.Opaque = true
	pick(opaque)
	text := func(s string) *routing.Prompt {
		return &routing.Prompt{Model: model, Text: []byte(s), Estimate: len(s) / 4, DP: -1}
	}
	pick(text("Once upon a time there was a router"))
	pick(text("Once upon a time there was a worker"))

	all, kept, since := r.Prefixes()
	require.Equal(t, 9, kept)
	recent := r.Recent()
	require.Equal(t, recent[9].At, since)
	var got []string
	for i := range all {
		p := &all[i]
		begins := strings.TrimSpace(string(p.Prompt.Text[:min(p.Length, len(p.Prompt.Text))]))
		got = append(got, fmt.Sprintf("%d with %d tokens: %s", p.Requests, p.Tokens(), begins))
	}
	require.Equal(t, []string{
		"4 with 40 tokens: ", "3 with 70 tokens: ", "2 with 7 tokens: Once upon a time there was a",
	}, got)
	require.Equal(t, append(append([]uint32(nil), system...), session...), all[1].Prompt.Tokens[:70])
	require.Equal(t, recent[6].At, all[1].At, "the latest of them")
}
