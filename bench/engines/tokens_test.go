//go:build engines

package engines_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	talks    = 8
	talkLong = 10 // turns
	// A user reads before going on, and an engine that is idle tells what it has cached within milliseconds.
	pause = 50 * time.Millisecond
)

// chatBody is a chat with tools, of which the openai client's own tests have none.
type chatBody struct {
	Model       string    `json:"model"`
	Messages    []message `json:"messages"`
	Tools       []any     `json:"tools,omitempty"`
	MaxTokens   int       `json:"max_tokens"`
	Temperature float64   `json:"temperature"`
}

// weather is a tool.
var weather = map[string]any{"type": "function", "function": map[string]any{
	"name": "get_weather", "description": "The weather in a city", "parameters": map[string]any{
		"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"},
	},
}}

// postChat sends one chat and reads the whole answer.
func postChat(ctx context.Context, base string, b *chatBody) (o outcome) {
	o.api = "chat"
	asked := *b
	asked.Messages = slices.Clone(b.Messages)
	o.asked = &asked
	if len(b.Tools) > 0 {
		o.api = "chat, tools"
	}
	raw, err := json.Marshal(b)
	if err != nil {
		o.err = err
		return o
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", bytes.NewReader(raw))
	if err != nil {
		o.err = err
		return o
	}
	req.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		o.err = err
		return o
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	o.worker, o.header = answer.Header.Get("X-Warmpath-Worker"), answer.Header.Get("X-Warmpath-Overlap")
	var doc struct {
		Choices []struct{ Message struct{ Content string } }
		Usage   struct {
			PromptTokens int `json:"prompt_tokens"`
			Details      struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", answer.StatusCode, text)
	}
	if err == nil {
		err = json.Unmarshal(text, &doc)
	}
	if err == nil && len(doc.Choices) != 1 {
		err = fmt.Errorf("%d choices: %s", len(doc.Choices), text)
	}
	if o.err = err; err == nil {
		o.text, o.prompt, o.cached = doc.Choices[0].Message.Content, doc.Usage.PromptTokens, doc.Usage.Details.Cached
	}
	return o
}

// converse holds conversations of ten turns through the router, half of them with tools, and returns all outcomes.
func converse(ctx context.Context, base string, seed uint64) []outcome {
	var all []outcome
	for talk := range talks {
		rnd := rand.New(rand.NewPCG(seed, uint64(talk)))
		b := chatBody{Model: "tiny", MaxTokens: 8, Messages: []message{{"system", sentence(rnd, 60)}}}
		if talk%2 == 1 {
			b.Tools = []any{weather}
		}
		for range talkLong {
			b.Messages = append(b.Messages, message{"user", sentence(rnd, 30)})
			began := time.Now()
			o := postChat(ctx, base, &b)
			o.at, o.took = began, time.Since(began)
			all = append(all, o)
			if o.err != nil {
				return all
			}
			b.Messages = append(b.Messages, message{"assistant", o.text})
			<-time.After(pause)
		}
	}
	return all
}

// tokens holds the ids that the router makes against the engines'.
func (p *proof) tokens(t *testing.T) {
	answers := map[string][]outcome{}
	for _, how := range []string{"--tokenize=auto", "--tokenize=workers", "--forward-input-ids"} {
		for _, e := range p.engines {
			e.flush(t)
		}
		r := startRouter(t, p.keeper, p.dir, p.binary, "kv", p.engines, how)
		began := p.engineCPU(t)
		m := measure("one at a time, chats of ten turns, "+how, "kv", func() []outcome { return converse(t.Context(), r.url, 11) })
		outcomes := m.outcomes
		answers[how] = outcomes
		p.note(t, "%s: engines' CPU %.1f ms a request", how, 1000*(p.engineCPU(t)-began)/float64(len(outcomes)))
		p.add(t, m)
		state := r.tokenState(t)
		if want := "router"; how != "--tokenize=workers" && (!strings.Contains(state, `"chat":"`+want) || !strings.Contains(state, `"mismatches":0`)) {
			t.Errorf("%s: %s", how, state)
		}
		p.note(t, "%s: %s", how, state)
		r.proc.stop(5 * time.Second)
	}
	_ = p.engines[0].likelihoods(t, answers["--tokenize=workers"][0].asked) // fails where an engine does not tell any more
	for how, outcomes := range answers {
		p.sameTalks(t, how, outcomes, answers["--tokenize=workers"])
	}
}

// sameTalks compares answers with those to the worker's own ids. Wrong ids change all conversations. One may differ all the same from some answer on:
// what is cached decides in which pieces an engine computes a prompt, and with that the last bit of its numbers, and where two tokens are equally
// likely the last bit decides which one it takes (seen once in 1,000 answers). So the engine itself is asked how likely both tokens were.
func (p *proof) sameTalks(t *testing.T, how string, outcomes, want []outcome) {
	t.Helper()
	parted := 0
	for talk := range talks {
		for i := talk * talkLong; i < min((talk+1)*talkLong, len(outcomes), len(want)); i++ {
			got, own := &outcomes[i], &want[i]
			if got.prompt != own.prompt {
				t.Errorf("%s: prompt %d has %d tokens, and %d by the worker's own ids", how, i, got.prompt, own.prompt)
				break
			}
			if got.text == own.text {
				continue
			}
			tie := atTie(p.engines[0].likelihoods(t, got.asked), got.text, own.text)
			p.note(t, "%s: answer %d is %q, and %q to the worker's own ids; equally likely: %s", how, i, got.text, own.text, tie)
			if tie == "" {
				t.Errorf("%s: answer %d differs from that to the worker's own ids, and not because two tokens were equally likely", how, i)
			}
			parted++
			break // what follows is another conversation
		}
	}
	if parted > talks/4 {
		t.Errorf("%s: %d of %d conversations differ from those with the worker's own ids", how, parted, talks)
	}
}

// tokenState returns what the router says of the model's tokens.
func (r *router) tokenState(t *testing.T) string {
	t.Helper()
	answer, err := http.Get(r.url + "/status")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var doc struct{ Tokens []map[string]any }
	if err := json.NewDecoder(answer.Body).Decode(&doc); err != nil || len(doc.Tokens) == 0 {
		return fmt.Sprint("none ", err)
	}
	delete(doc.Tokens[0], "folder") // it is this machine's
	state, err := json.Marshal(doc.Tokens[0])
	if err != nil {
		t.Fatal(err)
	}
	return string(state)
}

// engineCPU returns the CPU seconds that all engines have used.
func (p *proof) engineCPU(t *testing.T) float64 {
	t.Helper()
	sum := 0.0
	for _, e := range p.engines {
		sum += e.proc.cpu(t)
	}
	return sum
}
