package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/router"
)

// messagesReply is the usage of an answer of /v1/messages, with what the router said about it.
type messagesReply struct {
	source         string
	matched, total int
	prompt, cached int
	text           string
}

// askMessages sends a turn when the router knows all that happened before.
func askMessages(t *testing.T, cl *pairCluster, body map[string]any) (r messagesReply) {
	t.Helper()
	settle(t, cl.simulation)
	raw, err := json.Marshal(body)
	require.NoError(t, err)
	resp, err := http.Post(cl.base+"/v1/messages?beta=true", "application/json", strings.NewReader(string(raw)))
	require.NoError(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", answer)
	type usage struct {
		Input  int `json:"input_tokens"`
		Cached int `json:"cache_read_input_tokens"`
	}
	events := []string{string(answer)}
	if body["stream"] == true {
		events = nil
		for line := range strings.Lines(string(answer)) {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				events = append(events, data)
			}
		}
	}
	for _, data := range events {
		var e struct {
			Content []struct{ Text string }
			Usage   usage
			Message struct{ Usage usage }
			Delta   struct{ Text string }
		}
		require.NoError(t, json.Unmarshal([]byte(data), &e))
		r.prompt += e.Usage.Input + e.Usage.Cached + e.Message.Usage.Input + e.Message.Usage.Cached
		r.cached += e.Usage.Cached + e.Message.Usage.Cached
		r.text += e.Delta.Text
		for _, c := range e.Content {
			r.text += c.Text
		}
	}
	r.source = resp.Header.Get("X-Warmpath-Overlap-Source")
	_, err = fmt.Sscanf(resp.Header.Get("X-Warmpath-Overlap"), "%d/%d", &r.matched, &r.total)
	require.NoError(t, err)
	return r
}

// TestMessagesOverlapIsExact holds conversations of an agent, whole and in pairs, streamed and not:
// once the conversion is proved, the router knows the tokens that the workers find.
func TestMessagesOverlapIsExact(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]clusterSize{"workers": {workers: 3}, "pairs": {prefill: 1, decode: 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cl := runPairs(t, size, pairWorker(), router.Config{})
			exact, equal := 0, 0
			// Twelve of sixteen turns as a rule. A busy machine's workers tell the ids of some too late for the choice.
			for talk, end := 0, time.Now().Add(patience); exact < 12; talk++ {
				require.True(t, time.Now().Before(end), "%d turns of %d talks are exact", exact, talk)
				body := map[string]any{
					"model": "m", "max_tokens": 20, "system": []any{map[string]any{"type": "text", "text": strings.Repeat("you are an agent ", 20)}},
					"tools": []any{map[string]any{"name": "Read", "description": "reads", "input_schema": map[string]any{"properties": map[string]any{}}}},
				}
				messages := []any{map[string]any{"role": "user", "content": fmt.Sprintf("talk %d %s", talk, strings.Repeat("words ", 30))}}
				for turn := range 8 {
					body["messages"], body["stream"] = messages, turn%2 == 1
					r := askMessages(t, cl, body)
					require.Positive(t, r.prompt)
					if r.source == "exact" {
						exact++
						assert.Equal(t, r.prompt/page, r.total)
						assert.LessOrEqual(t, r.matched*page, r.cached, "talk %d, turn %d", talk, turn)
						if r.cached == r.matched*page {
							equal++
						}
					}
					id := fmt.Sprint("toolu_", turn)
					messages = append(messages, map[string]any{"role": "assistant", "content": []any{
						map[string]any{"type": "text", "text": r.text},
						map[string]any{"type": "tool_use", "id": id, "name": "Read", "input": map[string]any{"path": id}},
					}}, map[string]any{"role": "user", "content": []any{map[string]any{
						"type": "tool_result", "tool_use_id": id, "content": strings.Repeat("output ", 30),
					}}})
				}
			}
			proofs := cl.router.Status().Conversions
			require.Len(t, proofs, 1)
			assert.True(t, proofs[0].Proved)
			assert.Equal(t, "m messages with tools", proofs[0].Name)
			assert.Zero(t, proofs[0].Mismatches)
			// The event of an answer's last page may come after the worker rests.
			assert.GreaterOrEqual(t, equal, exact-1)
		})
	}
}
