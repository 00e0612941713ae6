//go:build engines

package engines_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// ttftRounds is how often each way to a first token is taken: few, since here is asserted what comes and not how fast. WARMPATH_TTFT_ROUNDS
// says another number, for a measurement.
func ttftRounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("WARMPATH_TTFT_ROUNDS")
	if text == "" {
		return 3
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("WARMPATH_TTFT_ROUNDS is %q, want a number above 0", text)
	}
	return n
}

// Where the pages of a prompt come from.
const (
	fromNowhere = iota
	fromGPU
	fromOwnTier
	fromPeer
	fromHint
	sources
)

var sourceNames = [sources]string{"computed", "the engine's own cache", "its node's tier", "the other node's tier", "the other node's, after a hint"}

// firstToken measures the time to the first token of prompts whose pages come from all the places that there are. Each round takes all of
// them, beginning with another one, so that what else the machine does falls on all alike.
func (p *tierProof) firstToken(t *testing.T) {
	pulled := p.sb.must(t)
	number := uint64(1000)
	for _, tokens := range []int{tierPrompt, 3000} {
		var took [sources][]time.Duration
		rounds := ttftRounds(t)
		for round := range rounds {
			p.ttftRound(t, &took, round, tokens, number)
			number += 2
		}
		fmt.Fprintf(&p.notes, "first token of prompts of %d tokens, median (shortest to longest), %d of each and twice as many computed\n", tokens, rounds)
		for from, all := range took {
			slices.Sort(all)
			fmt.Fprintf(&p.notes, "  %-32s %6.0f ms (%.0f to %.0f)\n", sourceNames[from], ms(all[len(all)/2]), ms(all[0]), ms(all[len(all)-1]))
		}
	}
	s := p.sb.must(t)
	fmt.Fprintf(&p.notes, "for it, %d pages of %d bytes were pulled in %.3f s, NIXL: %t\n", s.Pulled-pulled.Pulled,
		(s.PulledBytes-pulled.PulledBytes)/max(1, s.Pulled-pulled.Pulled), s.PullSeconds-pulled.PullSeconds, s.NIXL)
}

// ttftRound computes two new prompts on A. One is then asked for again wherever it is, the other one on B after a hint.
func (p *tierProof) ttftRound(t *testing.T, took *[sources][]time.Duration, round, tokens int, number uint64) {
	t.Helper()
	hit, pages := tierHit(tokens)
	ids, hinted := p.prompt(number, tokens), p.prompt(number+1, tokens)
	want, wantHinted := p.compute(t, ids, tierAnswer), p.compute(t, hinted, tierAnswer)
	took[fromNowhere] = append(took[fromNowhere], want.ttft, wantHinted.ttft)
	take := func(from int, got, want cachedAnswer, storage int) {
		p.equal(t, fmt.Sprintf("%d tokens from %s", tokens, sourceNames[from]), got, want, storage)
		if got.cached != hit {
			t.Errorf("%d tokens from %s: %d were cached, want %d", tokens, sourceNames[from], got.cached, hit)
		}
		took[from] = append(took[from], got.ttft)
	}
	ways := []func(){
		func() { take(fromGPU, p.a.ask(t.Context(), ids, tierAnswer), want, 0) },
		func() {
			p.a.flush(t)
			take(fromOwnTier, p.a.ask(t.Context(), ids, tierAnswer), want, hit)
		},
		func() { take(fromPeer, p.b.ask(t.Context(), ids, tierAnswer), want, hit) },
		func() {
			before := p.sb.must(t).Pulled
			p.sb.hint(t, hinted)
			p.sb.wait(t, "the pages of the hint are here", func(s tierStats) bool { return s.Pulled >= before+int64(pages) })
			take(fromHint, p.b.ask(t.Context(), hinted, tierAnswer), wantHinted, hit)
		},
	}
	for i := range ways {
		ways[(i+round)%len(ways)]()
	}
}
