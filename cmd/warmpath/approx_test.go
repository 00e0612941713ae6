package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/testkit"
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

// TestTalksStayByTheirText: with events switched off, text alone leads every turn to the worker that
// has answered the one before, whether or not others were answered meanwhile.
func TestTalksStayByTheirText(t *testing.T) {
	for _, chat := range []bool{true, false} {
		t.Run(fmt.Sprintf("chat=%v", chat), func(t *testing.T) {
			cl, base := startCluster(t, 4, sim.Config{EventConfig: sim.EventConfig{Events: "off"}}, "kv")
			const talks, turns = 6, 4
			var all []*talk
			for i := range uint64(talks) { // two of them share a system prompt
				all = append(all, &talk{base: base, client: http.DefaultClient, chat: chat, history: []said{{"system", words(1000+i/2, 120)}}})
			}
			homes := map[int]string{}
			for turn := range turns {
				for i, k := range all {
					settle(t, cl)
					resp, err := k.turn(words(uint64(100*turn+i), 60))
					require.NoError(t, err)
					if worker := resp.Header.Get("X-Warmpath-Worker"); turn == 0 {
						homes[i] = worker
					} else {
						assert.Equal(t, homes[i], worker, "turn %d of talk %d", turn, i)
					}
					assert.Equal(t, "approximate", resp.Header.Get("X-Warmpath-Overlap-Source"))
				}
			}
			settle(t, cl)
			st := cl.router.Status()
			assert.Zero(t, st.Compared, "no exactness is claimed")
			assert.Greater(t, st.Approx.Accuracy, 0.99, "of what is believed to be cached is")
			assert.Positive(t, st.Approx.Compared)
		})
	}
}

// TestRestartedWorkerIsNotBelieved: the prompts sent to the process before are gone with it.
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
			testkit.AwaitThat(t, func() bool { return stateOf(cl, first.worker) != "ready" }, func() string { return "its death is not noticed" })
			w.Faults().Restart(0)
		}
	}
	testkit.AwaitThat(t, func() bool {
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

// stateOf is a rank's state at the router.
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
	first, talks, turns := 0, 8, 0
	told := true // the workers tell what they do
	turn := func() reply {
		c := first + turns%talks
		before := len(histories[c])
		histories[c] = append(histories[c], prompt(100, turns)...)
		if told {
			settle(t, cl)
		} else {
			testkit.AwaitThat(t, func() bool { return busy(cl) == "" }, func() string { return busy(cl) })
		}
		r := send(t, base, histories[c], "")
		if before > 0 {
			assert.Equal(t, homes[c], r.worker, "turn %d of talk %d", turns, c)
			assert.Equal(t, (before-1)/page*page, r.cached, "the whole talk before turn %d of talk %d", turns, c)
		}
		if told {
			assert.LessOrEqual(t, r.matched*page, r.cached, "never over-credited")
		}
		homes[c], histories[c] = r.worker, append(histories[c], r.ids...)
		turns++
		return r
	}
	until := func(want string) {
		t.Helper()
		testkit.AwaitThat(t, func() bool {
			switch turn(); {
			case want == "approximate":
				time.Sleep(200 * time.Millisecond) // the checks of the streams take longer than all turns
			case first > 0 && turns%(4*talks) == 0: // short ones, on both workers
				first += talks
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
	for _, w := range cl.router.Status().Workers {
		assert.True(t, w.Events.Mutes == 1 || w.Trust.Events != nil, "%s is known to be mute", w.ID)
	}
	for range talks {
		turn()
	}
	for _, w := range cl.sims {
		w.Faults().DropEvents(0, false)
	}
	// Of the old conversations nobody will ever tell; answers of new ones show that the events tell all.
	first = talks
	until("exact")
	told = true
	for range talks {
		assert.Equal(t, "exact", turn().source)
	}
}
