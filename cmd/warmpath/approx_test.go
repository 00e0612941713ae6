package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/admin"
)

// said is one message of a conversation.
type said struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// talk is a conversation with the router, as a chat or as growing text.
type talk struct {
	base    string
	client  *http.Client
	chat    bool
	history []said
}

// words returns n words that no other seed's begin with.
func words(seed uint64, n int) string {
	r := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	for range n {
		for range 2 + r.IntN(6) {
			b.WriteByte(byte('a' + r.IntN(26)))
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// turn says something and hears the answer.
func (k *talk) turn(text string) (*http.Response, error) {
	k.history = append(k.history, said{"user", text})
	body, path := map[string]any{"model": "simulated", "max_tokens": 24}, "/v1/chat/completions"
	if k.chat {
		body["messages"] = k.history
	} else {
		var all strings.Builder
		for _, s := range k.history {
			all.WriteString(s.Content)
		}
		body["prompt"], path = all.String(), "/v1/completions"
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	resp, err := k.client.Post(k.base+path, "application/json", bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var a struct {
		Choices []struct {
			Message said
			Text    string
		}
	}
	if err := json.Unmarshal(answer, &a); err != nil || len(a.Choices) != 1 {
		return nil, fmt.Errorf("status %d, %s: %w", resp.StatusCode, answer, err)
	}
	k.history = append(k.history, said{"assistant", a.Choices[0].Message.Content + a.Choices[0].Text})
	return resp, nil
}

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
	awaitThat(t, func() bool { st = cl.router.Status(); return st.Requests >= 4*12*6 && st.InFlight == 0 },
		func() string { return fmt.Sprintf("%d requests, %d in flight", st.Requests, st.InFlight) })
	return st
}

// TestApproximateHitRate: with events switched off, text alone routes much of the way to what exact events give, whether the workers'
// caches hold everything or a part of it, and nobody is starved or flooded.
func TestApproximateHitRate(t *testing.T) {
	t.Parallel() // beside TestEventsDieMidLife, which waits most of its time
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

// TestRestartedWorkerIsNotBelieved: what was sent to the process before is gone with it.
func TestRestartedWorkerIsNotBelieved(t *testing.T) {
	cl, _ := startCluster(t, 2, sim.Config{EventConfig: sim.EventConfig{Events: "off"}}, "kv")
	ids := prompt(400, 1)
	first := generate(t, cl, ids, "")
	again := generate(t, cl, ids, "")
	assert.Equal(t, first.worker, again.worker)
	assert.InDelta(t, again.cached, again.matched*page, 2*page)
	settle(t, cl)
	for _, w := range cl.sims {
		if w.URL() == first.worker {
			w.Faults().Crash()
			// A process that is back before anybody looked was never seen to die, and without events nothing tells of it.
			awaitThat(t, func() bool { return stateOf(cl, first.worker) != "ready" }, func() string { return "its death is not noticed" })
			w.Faults().Restart(0)
		}
	}
	awaitThat(t, func() bool {
		for _, w := range cl.router.Status().Workers {
			if w.ID == first.worker {
				return w.State == "ready" && w.ApproxTokens == 0
			}
		}
		return false
	}, func() string { return fmt.Sprintf("%+v", cl.router.Status().Workers) })
	r := generate(t, cl, ids, "")
	assert.Zero(t, r.matched)
	assert.Zero(t, r.cached)
}

// stateOf is what the router thinks of a rank.
func stateOf(cl *simulation, id string) string {
	for _, w := range cl.router.Status().Workers {
		if w.ID == id {
			return w.State
		}
	}
	return ""
}

// TestEventsDieMidLife: a worker that goes on without telling what it does is routed by its answers, its conversations stay where they
// are, and it is exact again once it is heard.
func TestEventsDieMidLife(t *testing.T) {
	t.Parallel() // it waits for two checks of the streams, 5 s apart
	cl, base := startCluster(t, 2, sim.Config{}, "kv")
	homes, histories := map[int]string{}, map[int][]uint32{}
	talks, turns, moved, cached, total := 8, 0, 0, 0, 0
	told := true // the workers tell what they do
	turn := func() {
		c := turns % talks
		histories[c] = append(histories[c], prompt(100, turns)...)
		if told {
			settle(t, cl)
		}
		r := send(t, base, histories[c], "")
		if home, ok := homes[c]; ok {
			if home != r.worker {
				moved++
			}
			cached, total = cached+r.cached, total+r.prompt
		}
		homes[c], histories[c] = r.worker, append(histories[c], r.ids...)
		turns++
	}
	until := func(want string) {
		t.Helper()
		awaitThat(t, func() bool {
			if turn(); !told {
				time.Sleep(50 * time.Millisecond) // one conversation alone tells enough in a few turns
			}
			for _, w := range cl.router.Status().Workers {
				if w.Overlap != want {
					return false
				}
			}
			return true
		}, func() string { return fmt.Sprintf("the overlap is not %s: %+v", want, cl.router.Status().Workers) })
	}
	until("exact")
	for range 40 {
		turn()
	}
	used := map[string]bool{}
	for len(used) < 2 { // ties are drawn: now and then one worker gets all
		talks++
		for range talks {
			turn()
			used[homes[(turns-1)%talks]] = true
		}
	}
	settle(t, cl)
	told = false
	for _, w := range cl.sims {
		w.Faults().DropEvents(1<<40, true)
	}
	until("approximate")
	for range 40 {
		turn()
	}
	assert.Less(t, moved, turns/10, "turns of %d that left their home", turns)
	assert.Greater(t, float64(cached)/float64(total), 0.8, "hit rate")
	for _, w := range cl.sims {
		w.Faults().DropEvents(0, false)
	}
	until("exact")
	for range talks {
		turn()
	}
	r := send(t, base, histories[0], "")
	assert.LessOrEqual(t, r.matched*page, r.cached, "never over-credited")
	assert.Equal(t, "exact", r.source)
	for _, w := range cl.router.Status().Workers {
		assert.EqualValues(t, 1, w.Events.Mutes)
	}
}
