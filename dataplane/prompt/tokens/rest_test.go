package tokens_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
)

// bombFolder is modelFolder with a tokenizer that multiplies the letter q.
func bombFolder(t *testing.T) string {
	t.Helper()
	dir := modelFolder(t, template)
	name := filepath.Join(dir, "tokenizer.json")
	raw, err := os.ReadFile(name)
	require.NoError(t, err)
	var file map[string]any
	require.NoError(t, json.Unmarshal(raw, &file))
	var all []any
	for range 10 {
		all = append(all, map[string]any{"type": "Replace", "pattern": map[string]string{"String": "q"}, "content": strings.Repeat("q", 100)})
	}
	file["normalizer"] = map[string]any{"type": "Sequence", "normalizers": all}
	raw, err = json.Marshal(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, raw, 0o600))
	return dir
}

// bombTemplate takes some 20 million turns of its loops for a chat that says q.
const bombTemplate = "{% if 'q' in messages[0]['content'] %}{% for a in range(5000) %}{% for b in range(5000) %}{% endfor %}{% endfor %}{% endif %}" + template

// rests are the minutes that a part rests, one time after the other.
var rests = []int64{1, 2, 4, 8, 16, 32, 60, 60}

// made reports whether the router makes ids of a prompt, or the error.
func (s *testModels) made(m *tokens.Model, req *openai.Request) error {
	_, _, err := s.writer.Append(nil, m, req)
	return err
}

// TestBombsRest: after a prompt that takes a tokenizer or a template beyond its limits, prompts go
// to the workers for a while that doubles. It is said once in the log, and in the status.
func TestBombsRest(t *testing.T) {
	text, bombText := prompt(t, "once upon a time"), prompt(t, strings.Repeat("q", 100))
	chat := func(says string) *openai.Request {
		return parse(t, openai.APIChat, `{"messages":[{"role":"user","content":"`+says+`"}]}`)
	}
	for _, test := range []struct {
		name, folder string
		bomb         *openai.Request
		rests, works []*openai.Request
		text, says   string // of the status
		times        int
	}{
		{"a tokenizer, by a text", bombFolder(t), bombText, []*openai.Request{text, chat("x")}, nil, "workers", "tokenizer", 8},
		{"a tokenizer, by a chat", bombFolder(t), chat("qqqq"), []*openai.Request{text, chat("x")}, nil, "workers", "tokenizer", 2},
		{"a template", modelFolder(t, bombTemplate), chat("q"), []*openai.Request{chat("x")}, []*openai.Request{text, bombText}, "workers, unproved", "chat template", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newTestModels(t, map[string]string{"m": test.folder})
			s.models.WorkerUp("w", "m", tokens.Settings{Version: "0.5.23"})
			m := s.loaded(t)
			for _, req := range append(test.rests, test.works...) {
				require.NoError(t, s.made(m, req))
			}
			require.Empty(t, s.models.Status()[0].Reason)
			var waited int64
			for i, minutes := range rests[:test.times] {
				require.ErrorIs(t, s.made(m, test.bomb), tokens.ErrUnavailable)
				for _, seconds := range []int64{0, 60*minutes - 1} {
					s.clock.Store(waited + seconds)
					for _, req := range append(test.rests, test.bomb) {
						err := s.made(m, req)
						require.ErrorIs(t, err, tokens.ErrUnavailable)
						require.ErrorContains(t, err, "recently", "round %d: it is not tried again", i)
					}
					for _, req := range test.works {
						require.NoError(t, s.made(m, req))
					}
				}
				st := s.models.Status()[0]
				require.Contains(t, st.Reason, "the "+test.says+" exceeded its limits")
				require.Equal(t, []string{test.text, "workers", "workers"}, []string{st.Text, st.Chat, st.Tools})
				waited += 60 * minutes
				s.clock.Store(waited)
				for _, req := range test.rests {
					require.NoError(t, s.made(m, req), "round %d: it is over", i)
				}
			}
			require.Equal(t, 1, s.logs.count("beyond its limits"))
			require.Contains(t, s.models.Status()[0].Reason, fmt.Sprint(test.times, " times"))
		})
	}
}

// TestLongPrompts: a prompt that is too long for the router is no fault of the tokenizer.
func TestLongPrompts(t *testing.T) {
	s := newTestModels(t, map[string]string{"m": modelFolder(t, template)})
	s.models.WorkerUp("w", "m", tokens.Settings{Version: "0.5.23"})
	m := s.loaded(t)
	long := strings.Repeat("x", 17<<20)
	for _, req := range []*openai.Request{
		prompt(t, long), parse(t, openai.APIChat, `{"messages":[{"role":"user","content":"`+long+`"}]}`),
	} {
		err := s.made(m, req)
		require.ErrorIs(t, err, tokens.ErrUnavailable)
		require.ErrorContains(t, err, "longer")
		require.NoError(t, s.made(m, prompt(t, "short")))
	}
	require.Empty(t, s.models.Status()[0].Reason)
}
