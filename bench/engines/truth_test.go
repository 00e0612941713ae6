//go:build engines

package engines_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"
)

// overlapIsTrue: whatever a request asks for, the header says what the engine takes from its cache for it.
func (p *proof) overlapIsTrue(t *testing.T) {
	r := startRouter(t, p.keeper, p.dir, p.binary, "kv", p.engines[:1])
	defer r.proc.stop(5 * time.Second)
	rnd := rand.New(rand.NewPCG(16, 7))
	t.Run("prompt logprobs", func(t *testing.T) { logprobs(t, r, rnd) })
	t.Run("extra key", func(t *testing.T) { extraKey(t, r, rnd) })
	t.Run("nothing to tell", func(t *testing.T) { nothingToTell(t, r, rnd) })
}

// noCache: engines without a cache have nothing of a prompt, however often it comes.
func noCache(t *testing.T, r *router) {
	t.Helper()
	ids := randomIDs(rand.New(rand.NewPCG(16, 8)), 301)
	for range 6 {
		if o := asked(t, r, ids, nil); o.cached != 0 {
			t.Errorf("an engine without a cache reports %d cached tokens", o.cached)
		}
	}
}

// asked sends a prompt and checks that the header tells the engine's cached_tokens. Events follow an answer within moments.
func asked(t *testing.T, r *router, ids []int, more map[string]any) (o outcome) {
	t.Helper()
	time.Sleep(300 * time.Millisecond) // events of the answer before, on a machine at ten times its load
	body := map[string]any{"input_ids": ids, "sampling_params": sampling{MaxNewTokens: 4, IgnoreEOS: true}}
	maps.Copy(body, more)
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Post(r.url+"/generate", "application/json", bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	document, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", answer.StatusCode, document)
	}
	if err == nil {
		err = o.take(document)
	}
	if err != nil {
		t.Fatal(err)
	}
	o.header = answer.Header.Get("X-Warmpath-Overlap")
	source := answer.Header.Get("X-Warmpath-Overlap-Source")
	expected, known := o.expected()
	t.Logf("%v: %d of %d tokens cached, header %s, %s", more, o.cached, o.prompt, o.header, source)
	if source == "exact" && (!known || expected != o.cached) {
		t.Errorf("%v: the header says %s, exactly, and the engine had %d of %d tokens", more, o.header, o.cached, o.prompt)
	}
	if _, keyed := more["extra_key"]; !keyed && source != "exact" {
		t.Errorf("%v: the overlap is %s", more, source)
	}
	return o
}

func logprobs(t *testing.T, r *router, rnd *rand.Rand) {
	t.Helper()
	ids := randomIDs(rnd, 200)
	asked(t, r, ids, nil)
	for _, start := range []int{-1, 0, 1, 4, 17, 100, 196, 199, 200} {
		asked(t, r, ids, map[string]any{"return_logprob": true, "logprob_start_len": start})
		asked(t, r, ids, map[string]any{"logprob_start_len": start})
	}
	asked(t, r, ids, map[string]any{"return_logprob": true})
	if o := asked(t, r, ids, nil); o.cached == 0 {
		t.Error("nothing is cached in the end")
	}
}

func extraKey(t *testing.T, r *router, rnd *rand.Rand) {
	t.Helper()
	for range 3 {
		ids := randomIDs(rnd, 150+rnd.IntN(100))
		longer := append(append([]int{}, ids...), randomIDs(rnd, 60)...)
		keyed := map[string]any{"extra_key": "tenant-a"}
		asked(t, r, ids, keyed)
		asked(t, r, ids, nil)
		asked(t, r, ids, nil)
		asked(t, r, longer, map[string]any{"extra_key": "tenant-b"})
		asked(t, r, longer, nil)
		asked(t, r, longer, keyed)
		asked(t, r, longer, nil)
	}
}

// nothingToTell: prompts that are computed again and store nothing are no sign of a publisher that has died.
func nothingToTell(t *testing.T, r *router, rnd *rand.Rand) {
	t.Helper()
	ids := randomIDs(rnd, 400)
	asked(t, r, ids, nil)
	asked(t, r, ids, nil)
	for began := time.Now(); time.Since(began) < 25*time.Second; {
		for range 3 {
			asked(t, r, ids, map[string]any{"return_logprob": true, "logprob_start_len": 0})
		}
		time.Sleep(time.Second)
	}
	if o := asked(t, r, ids, nil); o.cached == 0 {
		t.Error("nothing is cached in the end")
	}
	for _, w := range r.status(t).Workers {
		if w.Events.State != "live" {
			t.Errorf("the events of %s are %s", w.URL, w.Events.State)
		}
	}
}
