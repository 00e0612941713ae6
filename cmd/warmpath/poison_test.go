package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/router"
)

// poisonous is a cluster whose workers die of requests.
type poisonous struct{ *pairCluster }

// startPoisonous runs workers that die of a body with text, and come back after a while.
func startPoisonous(t *testing.T, size clusterSize, text string, back time.Duration) poisonous {
	t.Helper()
	p := poisonous{startPairs(t, size, pairWorker(), router.Config{})}
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
	assert.Empty(t, failed, "of %d", answered)
	assert.GreaterOrEqual(t, answered, 12)
}

// TestClientsSendOnePoisonAtOnce: three copies are in flight before anybody knows what they are.
func TestClientsSendOnePoisonAtOnce(t *testing.T) {
	p := startPoisonous(t, clusterSize{workers: 5}, "POISON", 2*time.Second)
	stop := p.innocents(t.Context(), 8)
	var wg sync.WaitGroup
	for client := range 3 {
		wg.Go(func() {
			for try := range 3 {
				body := fmt.Sprintf(`{"rid":"%d-%d","text":"take this POISON","stream":%v,"sampling_params":{"max_new_tokens":8}}`, client, try, client == 0)
				got := p.send(t.Context(), "/generate", body)
				assert.Equal(t, told{http.StatusBadRequest, "request_ends_engines", got.text}, got)
			}
		})
	}
	wg.Wait()
	answered, failed := stop()
	assert.Empty(t, failed, "of %d", answered)
	assert.LessOrEqual(t, p.deaths(), 2)
}

func TestTwoPoisons(t *testing.T) {
	p := startPoisonous(t, clusterSize{workers: 6}, "POISON", 2*time.Second)
	stop := p.innocents(t.Context(), 8)
	var wg sync.WaitGroup
	for _, which := range []string{"one POISON", "another POISON"} {
		wg.Go(func() {
			for try := range 3 {
				got := p.send(t.Context(), "/generate", fmt.Sprintf(`{"rid":"%s%d","text":%q}`, which, try, which))
				assert.Equal(t, told{http.StatusBadRequest, "request_ends_engines", got.text}, got)
			}
		})
	}
	wg.Wait()
	answered, failed := stop()
	assert.Empty(t, failed, "of %d", answered)
	assert.LessOrEqual(t, p.deaths(), 4)
}

// TestAPlainDeathHoldsUpNobody: many requests are in flight when an operator kills a worker.
func TestAPlainDeathHoldsUpNobody(t *testing.T) {
	p := startPoisonous(t, clusterSize{workers: 3}, "", time.Second)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			body := fmt.Sprintf(`{"text":"long request %d","sampling_params":{"max_new_tokens":6000,"ignore_eos":true}}`, i)
			got := p.send(t.Context(), "/generate", body)
			assert.Equal(t, http.StatusOK, got.status, got.text)
		})
	}
	awaitThat(t, func() bool { return p.router.Status().InFlight == 200 }, func() string { return "200 in flight" })
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
	p := poisonous{startPairs(t, clusterSize{prefill: 4, decode: 2}, pairWorker(), router.Config{})}
	for _, w := range p.prefill {
		w.Faults().DieOf("POISON", 2*time.Second)
	}
	stop := p.innocents(t.Context(), 8)
	for i := range 3 {
		got := p.send(t.Context(), "/generate", fmt.Sprintf(`{"rid":"%d","text":"POISON","sampling_params":{"max_new_tokens":8}}`, i))
		assert.Equal(t, told{http.StatusBadRequest, "request_ends_engines", got.text}, got)
	}
	answered, failed := stop()
	assert.Empty(t, failed, "of %d", answered)
	assert.LessOrEqual(t, p.deaths(), 2)
}

// TestAStreamThatWasCutIsSuspect: it cannot be sent again by the router, but a client may.
func TestAStreamThatWasCutIsSuspect(t *testing.T) {
	p := startPoisonous(t, clusterSize{workers: 3}, "", time.Second)
	const body = `{"text":"a long story","stream":true,"sampling_params":{"max_new_tokens":20000,"ignore_eos":true}}`
	deaths := 0
	for ; ; deaths++ { // two, or three where this machine is so slow that the stream is 2 s old when it is cut
		resp, err := p.client.Post(p.base+"/generate", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		if resp.StatusCode != http.StatusOK {
			raw, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			require.Equal(t, http.StatusBadRequest, resp.StatusCode, "%s", raw)
			require.Contains(t, string(raw), "request_ends_engines")
			break
		}
		require.Less(t, deaths, 3)
		_, err = resp.Body.Read(make([]byte, 64))
		require.NoError(t, err)
		for _, w := range p.sims {
			if w.URL() == resp.Header.Get("X-Warmpath-Worker") {
				w.Faults().Restart(time.Second)
			}
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		awaitThat(t, func() bool { return p.metric("warmpath_quarantine_losses_total") == strconv.Itoa(deaths+1) }, func() string {
			return p.metric("warmpath_quarantine_losses_total")
		})
	}
	require.GreaterOrEqual(t, deaths, 2)
	assert.Equal(t, "1", p.metric("warmpath_quarantine_caught_total"))
	assert.Equal(t, "1", p.metric("warmpath_quarantine_refused_total"))
	assert.Equal(t, http.StatusOK, p.send(t.Context(), "/generate", `{"text":"another","sampling_params":{"max_new_tokens":8}}`).status)
}

// metric is what the router shows under a name.
func (p poisonous) metric(name string) string {
	resp, err := p.client.Get(p.base + "/metrics")
	if err != nil {
		return err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	raw, _ := io.ReadAll(resp.Body)
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
