//go:build soak

package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// converse has 4 clients with 12 conversations each, of 6 turns. Each client goes on with one of its conversations at random,
// so some rest while others go on; a third of them share a system prompt. It returns what the router saw.
func converse(t *testing.T, policy string, worker sim.Config, chat bool) admin.Status {
	t.Helper()
	cl, base := startCluster(t, 4, worker, policy)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}} // its own: another test closes idle connections of the default one
	defer client.CloseIdleConnections()
	var clients sync.WaitGroup
	for number := range uint64(4) {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(number, 7))
			var talks []*talk
			var left []int
			for i := range uint64(12) {
				talks = append(talks, &talk{base: base, client: client, chat: chat, history: []said{{"system", words(1000+i%3, 120)}}})
				left = append(left, 6)
			}
			for step := uint64(0); len(talks) > 0; step++ {
				i := r.IntN(min(len(talks), 5)) // five are open at a time
				if _, err := talks[i].turn(words(number*1000+step+10_000, 60)); err != nil {
					t.Errorf("client %d: %v", number, err)
					return
				}
				if left[i]--; left[i] == 0 {
					talks, left = append(talks[:i], talks[i+1:]...), append(left[:i], left[i+1:]...)
				}
			}
		})
	}
	clients.Wait()
	var st admin.Status
	testkit.AwaitThat(t, func() bool { st = cl.router.Status(); return st.Requests >= 4*12*6 && st.InFlight == 0 },
		func() string { return fmt.Sprintf("%d requests, %d in flight", st.Requests, st.InFlight) })
	return st
}

// TestApproximateHitRate: with events switched off, text alone routes much of the way to what exact events give, whether the workers'
// caches hold everything or a part of it, and nobody is starved or flooded.
func TestApproximateHitRate(t *testing.T) {
	for _, test := range []struct {
		name  string
		chat  bool
		pages int
	}{
		{"chat", true, 0},
		{"text", false, 0},
		{"chat, with evictions", true, 220},
		{"text, with evictions", false, 220},
	} {
		t.Run(test.name, func(t *testing.T) {
			silent := sim.Config{CachePages: test.pages, EventConfig: sim.EventConfig{Events: "off"}}
			turns := converse(t, "round-robin", silent, test.chat)
			approximate := converse(t, "kv", silent, test.chat)
			exact := converse(t, "kv", sim.Config{CachePages: test.pages}, test.chat)
			var shares []string
			computed := 0
			for _, w := range approximate.Workers {
				shares = append(shares, fmt.Sprintf("%.2f", w.Share))
				assert.Less(t, w.Share, 0.6, "share of %s", w.ID)
				assert.Equal(t, "approximate", w.Overlap)
				computed += int(w.PromptTokens - w.HitTokens)
			}
			assert.Greater(t, computed, 4*test.pages*page, "the workers have computed more than they can hold")
			t.Logf("hit rate: round robin %.3f, approximate %.3f, exact %.3f; shares %v; %+v", turns.HitRate,
				approximate.HitRate, exact.HitRate, shares, approximate.Approx)
			// Which worker is free when is chance: mostly it is three quarters of the way.
			assert.Greater(t, approximate.HitRate, turns.HitRate+(exact.HitRate-turns.HitRate)/3)
			assert.Greater(t, approximate.Approx.Accuracy, 0.8, "of what is believed to be cached is")
			assert.Zero(t, approximate.Compared, "no exactness is claimed")
		})
	}
}
