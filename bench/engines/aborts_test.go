//go:build engines

package engines_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// abortsOfOthers aborts by beginnings of ids, as SGLang itself would do, and leaves with an id that
// begins those of others: all other answers stay whole. A whole id ends its own request.
func (p *proof) abortsOfOthers(t *testing.T) {
	r := startRouter(t, p.keeper, p.dir, p.binary, "kv", p.engines)
	defer r.proc.stop(5 * time.Second)

	// Ids that the router gives, ids that a client gives, and the ids that SGLang gives to chats.
	others := map[string]string{
		"/generate":            fmt.Sprintf(`{"text":"one","sampling_params":{"max_new_tokens":%d,"ignore_eos":true}}`, longGeneration),
		"/generate#":           fmt.Sprintf(`{"rid":"mine","text":"two","sampling_params":{"max_new_tokens":%d,"ignore_eos":true}}`, longGeneration),
		"/v1/chat/completions": fmt.Sprintf(`{"model":"tiny","messages":[{"role":"user","content":"three"}],"max_tokens":%d,"ignore_eos":true}`, longGeneration),
	}
	type result struct {
		name, answer string
		status       int
	}
	results := make(chan result, len(others))
	for name, body := range others {
		path := strings.TrimSuffix(name, "#")
		go func() {
			status, answer := r.answerTo(t, path, body)
			results <- result{name, answer, status}
		}()
	}
	waitRunning(t, p.engines, len(others))

	for _, id := range []string{"", "w", "wp-", "c", "chatcmpl-", "m", "min", "mine2", "0"} {
		status, answer := r.answerTo(t, "/abort_request", fmt.Sprintf(`{"rid":%q}`, id))
		t.Logf("abort of %q: %d %s", id, status, answer)
	}
	status, answer := r.answerTo(t, "/abort_request", `{"rid":"","abort_all":true}`)
	t.Logf("abort of all: %d %s", status, answer)

	// A client that leaves while its id is the beginning of another's.
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		body := fmt.Sprintf(`{"rid":"m","text":"four","sampling_params":{"max_new_tokens":%d,"ignore_eos":true}}`, longGeneration)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/generate", strings.NewReader(body))
		if err != nil {
			return
		}
		req.Header.Set("Content-Type", "application/json")
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	waitRunning(t, p.engines, len(others)+1)
	leave()
	<-left

	for range others {
		got := <-results
		var body struct {
			Meta struct {
				Completion int `json:"completion_tokens"`
			} `json:"meta_info"`
			Usage struct {
				Completion int `json:"completion_tokens"`
			} `json:"usage"`
		}
		err := json.Unmarshal([]byte(got.answer), &body)
		made := body.Meta.Completion + body.Usage.Completion
		p.note(t, "aborts of others: %s is answered with %d and %d tokens", got.name, got.status, made)
		if err != nil || got.status != http.StatusOK || made != longGeneration {
			t.Errorf("%s: %d, %d of %d tokens, error %v: %s", got.name, got.status, made, longGeneration, err, got.answer)
		}
	}
	waitRunning(t, p.engines, 0)

	ended := make(chan result, 1)
	go func() {
		status, answer := r.answerTo(t, "/generate",
			fmt.Sprintf(`{"rid":"whole","text":"five","sampling_params":{"max_new_tokens":%d,"ignore_eos":true}}`, longGeneration))
		ended <- result{"whole", answer, status}
	}()
	waitRunning(t, p.engines, 1)
	before := decoded(t, p.engines)
	r.answerTo(t, "/abort_request", `{"rid":"whole"}`)
	took := waitRunning(t, p.engines, 0)
	made := decoded(t, p.engines) - before
	got := <-ended
	p.note(t, "abort of a whole id: idle %.2f s and %d tokens later, answer %d", took.Seconds(), made, got.status)
	if took > abortWithin && made > abortTokens {
		t.Errorf("abort of a whole id: the engines worked on for %.2f s and made %d tokens", took.Seconds(), made)
	}
}
