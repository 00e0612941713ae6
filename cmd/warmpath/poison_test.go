package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// poisonous is a cluster whose workers die of requests.
type poisonous struct{ *pairCluster }

// quarantined is a router that refuses a request that was in flight when two engines died.
var quarantined = func() (cfg router.Config) { cfg.Requests.Quarantine = time.Hour; return cfg }()

// startPoisonous runs workers that die of a body with text, and come back after a while.
func startPoisonous(t *testing.T, size clusterSize, text string, back time.Duration) poisonous {
	t.Helper()
	p := poisonous{startPairs(t, size, pairWorker(), quarantined)}
	for _, w := range p.sims {
		w.Faults().DieOf(text, back)
	}
	return p
}

func (p poisonous) deaths() (n int) {
	for _, w := range p.sims {
		n += w.Faults().Deaths()
	}
	return n
}

// told is the status and the error's code of an answer.
type told struct {
	status int
	code   string
	text   string
}

func (p poisonous) send(ctx context.Context, path, body string) told {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.base+path, strings.NewReader(body))
	if err != nil {
		return told{text: err.Error()}
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return told{text: err.Error()}
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return told{text: err.Error()}
	}
	var e struct {
		Error struct{ Code string }
	}
	_ = json.Unmarshal(raw, &e)
	return told{resp.StatusCode, e.Error.Code, string(raw)}
}

// innocents sends requests until it is stopped, and returns those that were not answered.
func (p poisonous) innocents(ctx context.Context, clients int) (stop func() (answered int, failed []told)) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var answered int
	var failed []told
	for client := range clients {
		wg.Go(func() {
			for n := 0; n == 0 || ctx.Err() == nil; n++ { // each sends at least once
				body := fmt.Sprintf(`{"text":"client %d asks its question %d","sampling_params":{"max_new_tokens":8,"ignore_eos":true}}`, client, n)
				got := p.send(context.WithoutCancel(ctx), "/generate", body)
				mu.Lock()
				if answered++; got.status != http.StatusOK {
					failed = append(failed, got)
				}
				mu.Unlock()
			}
		})
	}
	return func() (int, []told) { cancel(); wg.Wait(); return answered, failed }
}

// assertSpared checks the answers to innocents: each client had a request in flight at both deaths
// once at most, and no other failed.
func assertSpared(t *testing.T, answered int, failed []told, clients int) {
	t.Helper()
	assert.GreaterOrEqual(t, answered, clients)
	assert.LessOrEqual(t, len(failed), clients)
	for _, f := range failed {
		assert.Equal(t, "request_ends_engines", f.code, f.text)
	}
}

func TestIDsOutsideTheVocabularyReachNoWorker(t *testing.T) {
	p := startPoisonous(t, clusterSize{workers: 2}, "", time.Second)
	for path, body := range map[string]string{
		"/generate":            `{"input_ids":[5,151936],"sampling_params":{"max_new_tokens":1}}`,
		"/v1/completions":      `{"model":"m","prompt":[[5],[4000000000]],"max_tokens":1}`,
		"/v1/chat/completions": `{"model":"m","messages":[{"role":"user","content":"x"}],"input_ids":[151936],"max_tokens":1}`,
	} {
		got := p.send(t.Context(), path, body)
		assert.Equal(t, http.StatusBadRequest, got.status, got.text)
		assert.Contains(t, got.text, "0 to 151935", path)
	}
	assert.Equal(t, http.StatusOK, p.send(t.Context(), "/generate", `{"input_ids":[5,151935],"sampling_params":{"max_new_tokens":1}}`).status)
	assert.Zero(t, p.deaths())
}

func TestAPoisonEndsTwoWorkersAtMost(t *testing.T) {
	p := startPoisonous(t, clusterSize{workers: 4}, "POISON", 2*time.Second)
	stop := p.innocents(t.Context(), 12)
	const poison = `{"rid":"r-%d","user":"u-%d","text":"take this POISON","sampling_params":{"max_new_tokens":8}}`
	for i := range 3 {
		got := p.send(t.Context(), "/generate", fmt.Sprintf(poison, i, i))
		assert.Equal(t, told{http.StatusBadRequest, "request_ends_engines", got.text}, got)
		assert.Equal(t, 2, p.deaths())
	}
	answered, failed := stop()
	assertSpared(t, answered, failed, 12)
}

// TestAPlainDeathHoldsUpNobody: many requests are in flight when an operator kills a worker.
func TestAPlainDeathHoldsUpNobody(t *testing.T) {
	p := startPoisonous(t, clusterSize{workers: 3}, "", time.Second)
	var wg sync.WaitGroup
	for i := range deathRequests {
		wg.Go(func() {
			body := fmt.Sprintf(`{"text":"long request %d","sampling_params":{"max_new_tokens":6000,"ignore_eos":true}}`, i)
			got := p.send(t.Context(), "/generate", body)
			assert.Equal(t, http.StatusOK, got.status, got.text)
		})
	}
	testkit.AwaitThat(t, func() bool { return p.router.Status().InFlight == deathRequests }, func() string { return "all are in flight" })
	p.sims[0].Faults().Restart(time.Second)
	wg.Wait()
	require.Zero(t, p.deaths())
	for i := range 5 { // sent again, they are answered as before
		got := p.send(t.Context(), "/generate", fmt.Sprintf(`{"text":"long request %d","sampling_params":{"max_new_tokens":10}}`, i))
		assert.Equal(t, http.StatusOK, got.status, got.text)
	}
}

// TestAPoisonEndsTwoPrefillWorkersAtMost: of pairs, the prefill workers compute it.
func TestAPoisonEndsTwoPrefillWorkersAtMost(t *testing.T) {
	p := poisonous{startPairs(t, clusterSize{prefill: 4, decode: 2}, pairWorker(), quarantined)}
	for _, w := range p.prefill {
		w.Faults().DieOf("POISON", 2*time.Second)
	}
	stop := p.innocents(t.Context(), 8)
	for i := range 3 {
		got := p.send(t.Context(), "/generate", fmt.Sprintf(`{"rid":"%d","text":"POISON","sampling_params":{"max_new_tokens":8}}`, i))
		assert.Equal(t, told{http.StatusBadRequest, "request_ends_engines", got.text}, got)
	}
	answered, failed := stop()
	assertSpared(t, answered, failed, 8)
	assert.LessOrEqual(t, p.deaths(), 2)
}
