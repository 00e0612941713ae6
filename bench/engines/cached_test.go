//go:build engines

package engines_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// cachedAnswer is what one /generate request said, with where its prompt's pages came from.
type cachedAnswer struct {
	ids                   []int
	cached, host, storage int
	ttft, took            time.Duration // to the first token, and to the whole answer
	worker                string        // that the router chose; "" where the engine was asked itself
	err                   error
}

// askCached sends a prompt to an engine or a router and reads the greedy answer of n tokens, as a stream.
func askCached(ctx context.Context, base string, ids []int, n int) cachedAnswer {
	return askSalted(ctx, base, ids, n, "")
}

// askSalted is askCached of a prompt with a cache salt, which shares no page with the prompt of
// another salt.
func askSalted(ctx context.Context, base string, ids []int, n int, salt string) (a cachedAnswer) {
	fields := map[string]any{
		"model": served, "input_ids": ids, "return_cached_tokens_details": true, "stream": true,
		"sampling_params": map[string]any{"max_new_tokens": n, "temperature": 0, "ignore_eos": true},
	}
	if salt != "" {
		fields["cache_salt"] = salt
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return cachedAnswer{err: err}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/generate", bytes.NewReader(body))
	if err != nil {
		return cachedAnswer{err: err}
	}
	request.Header.Set("Content-Type", "application/json")
	began := time.Now()
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return cachedAnswer{err: err}
	}
	defer answer.Body.Close()
	a.worker = answer.Header.Get("X-Warmpath-Worker")
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		a.err = fmt.Errorf("status %d: %s", answer.StatusCode, text)
		return a
	}
	a.err = a.read(answer.Body, began)
	a.took = time.Since(began)
	return a
}

// read takes the events of a stream, each of which carries the whole answer so far.
func (a *cachedAnswer) read(body io.Reader, began time.Time) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, found := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !found {
			continue
		}
		if string(data) == "[DONE]" {
			return nil
		}
		if a.ttft == 0 {
			a.ttft = time.Since(began)
		}
		var g struct {
			OutputIDs []int `json:"output_ids"`
			Meta      struct {
				Cached  int                         `json:"cached_tokens"`
				Details struct{ Host, Storage int } `json:"cached_tokens_details"`
			} `json:"meta_info"`
			Error json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(data, &g); err != nil {
			return fmt.Errorf("cannot read the event %q: %w", data, err)
		}
		if len(g.Error) > 0 {
			return fmt.Errorf("the stream carries an error: %s", g.Error)
		}
		a.ids, a.cached, a.host, a.storage = g.OutputIDs, g.Meta.Cached, g.Meta.Details.Host, g.Meta.Details.Storage
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return fmt.Errorf("the stream ended without [DONE]: %w", io.ErrUnexpectedEOF)
}

// ask is askCached of this engine.
func (e *engine) ask(ctx context.Context, ids []int, n int) cachedAnswer {
	return askCached(ctx, e.url, ids, n)
}
