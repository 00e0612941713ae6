package tokens_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/modelfile"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/promptcache"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
	"github.com/warmpath/warmpath/radix"
)

const template = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}" +
	"{% if tools %}{{ tools | length }} tools{% endif %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"

// alphabet spells bytes as GPT-2's byte-level vocabularies do: printable ones are themselves, the
// others follow U+0100.
func alphabet() [256]string {
	var all [256]string
	next := rune(0x100)
	for b := range 256 {
		if b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae {
			all[b] = string(rune(b))
			continue
		}
		all[b] = string(next)
		next++
	}
	return all
}

// modelFolder writes a model with bytes and two special tokens.
func modelFolder(t testing.TB, chatTemplate string) string {
	t.Helper()
	dir := t.TempDir()
	vocab := map[string]int{}
	for b, text := range alphabet() {
		vocab[text] = b
	}
	added := []map[string]any{}
	for i, text := range []string{"<|im_start|>", "<|im_end|>"} {
		added = append(added, map[string]any{
			"id": 256 + i, "content": text, "special": true,
			"single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
		})
	}
	write := func(name string, v any) {
		raw, err := json.Marshal(v)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), raw, 0o600))
	}
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	write("tokenizer.json", map[string]any{
		"version": "1.0", "added_tokens": added, "pre_tokenizer": level, "decoder": level,
		"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}},
	})
	write("tokenizer_config.json", map[string]any{"chat_template": chatTemplate})
	return dir
}

// bytesOf returns the ids of a text in such a model, by definition.
func bytesOf(text string) []uint32 {
	var ids []uint32
	for text != "" {
		switch {
		case strings.HasPrefix(text, "<|im_start|>"):
			ids, text = append(ids, 256), text[len("<|im_start|>"):]
		case strings.HasPrefix(text, "<|im_end|>"):
			ids, text = append(ids, 257), text[len("<|im_end|>"):]
		default:
			ids, text = append(ids, uint32(text[0])), text[1:]
		}
	}
	return ids
}

// engine answers /v1/tokenize as a worker with that model would.
type engine struct {
	calls atomic.Int64
	wrong atomic.Bool // it has another template
}

func (w *engine) Fetch(_ context.Context, _ time.Time, _, _ string, parts [][]byte, _ func(int) []byte) (int, []byte, error) {
	w.calls.Add(1)
	var req struct {
		Prompt   *string
		Messages []struct{ Role, Content string }
		Tools    []any
	}
	if err := json.Unmarshal(slices.Concat(parts...), &req); err != nil {
		return 400, nil, nil //nolint:nilerr // it is the worker's answer
	}
	var text strings.Builder
	if w.wrong.Load() {
		text.WriteByte('!')
	}
	if req.Prompt != nil {
		text.WriteString(*req.Prompt)
	} else {
		for _, m := range req.Messages {
			text.WriteString("<|im_start|>" + m.Role + "\n" + m.Content + "<|im_end|>\n")
		}
		if len(req.Tools) > 0 {
			fmt.Fprintf(&text, "%d tools", len(req.Tools))
		}
		text.WriteString("<|im_start|>assistant\n")
	}
	ids, err := json.Marshal(bytesOf(text.String()))
	return 200, fmt.Appendf(nil, `{"tokens":%s}`, ids), err
}

// testModels is a router's models, source and worker.
type testModels struct {
	models *tokens.Models
	source *tokens.Source
	writer *tokens.Writer
	engine *engine
	logs   lines
	clock  atomic.Int64 // seconds
	end    func()       // waits for Run
}

// lines is a log that is read while others write to it.
type lines struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

func newTestModels(t testing.TB, folders map[string]string) *testModels {
	t.Helper()
	return newTestModelsOf(t, folders, nil)
}

// newTestModelsOf returns models of which some are at a hub.
func newTestModelsOf(t testing.TB, folders map[string]string, hub tokens.Hub) *testModels {
	t.Helper()
	s := &testModels{engine: &engine{}}
	x := radix.New(radix.Config{Seed: 1})
	c, err := promptcache.New(promptcache.Config{Index: x, BlockSize: func() int { return 16 }})
	require.NoError(t, err)
	s.source = newSource(t, tokens.Config{Fetch: s.engine})
	s.writer = tokens.NewWriter(c.NewCursor())
	s.models = tokens.NewModels(tokens.ModelsConfig{
		Files: modelfile.New([]string{os.TempDir()}), Now: func() time.Time { return time.Unix(1000+s.clock.Load(), 0) }, Source: s.source, PromptCache: c, Folders: folders, Hub: hub, SampleEvery: 4, Log: slog.New(slog.NewTextHandler(&s.logs, nil)),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.models.Run(ctx) }()
	s.end = sync.OnceFunc(func() { cancel(); require.NoError(t, <-done) })
	t.Cleanup(s.end)
	return s
}

// loaded waits until the model's files are read.
func (s *testModels) loaded(t testing.TB) *tokens.Model {
	t.Helper()
	require.Eventually(t, func() bool { return s.models.Find("m") != nil }, 5*time.Minute, time.Millisecond)
	return s.models.Find("m")
}

// ask does the request path's part for a prompt, and reports whether the ids were made here.
func (s *testModels) ask(t *testing.T, m *tokens.Model, req *openai.Request) bool {
	t.Helper()
	own, _, err := s.writer.Append(nil, m, req)
	require.NoError(t, err)
	if m.Verified(req) {
		s.models.Sample(m, "w", req, own)
		return true
	}
	theirs, err := s.source.Prompt(nil, "w", req)
	require.NoError(t, err)
	s.models.Compare(m, req, own, theirs.IDs)
	return false
}

var unique atomic.Int64

func chatBody(t *testing.T, more string) *openai.Request {
	t.Helper()
	return parse(t, openai.APIChat, fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"number %d: \u4f60\u597d"}]%s}`, unique.Add(1), more))
}

// TestModelIsProvedByItsWorkers: each kind of prompt by itself, and refuted when a worker says
// otherwise.
func TestModelIsProvedByItsWorkers(t *testing.T) {
	s := newTestModels(t, map[string]string{"m": modelFolder(t, template)})
	s.models.WorkerUp("w", "m", tokens.Settings{Version: "0.5.23", Model: "/not/here"})
	m := s.loaded(t)
	kinds := map[string]func() *openai.Request{
		"text":  func() *openai.Request { return prompt(t, fmt.Sprint("once upon ", unique.Add(1))) },
		"chat":  func() *openai.Request { return chatBody(t, "") },
		"tools": func() *openai.Request { return chatBody(t, `,"tools":[{"type":"function","function":{"name":"f"}}]`) },
	}
	for name, next := range kinds {
		for i := range 3 {
			require.False(t, s.ask(t, m, next()), "%s %d: a worker is asked", name, i)
		}
		for range 3 {
			require.True(t, s.ask(t, m, next()), "%s: made here", name)
		}
	}
	require.LessOrEqual(t, s.engine.calls.Load(), int64(3*3+3*3/4), "three of each kind, and one in four of the others")
	st := s.models.Status()
	require.Len(t, st, 1)
	assert.Equal(t, []string{"router", "router", "router"}, []string{st[0].Text, st[0].Chat, st[0].Tools})
	assert.Zero(t, st[0].Mismatches)

	// The worker comes back with another template: a sample shows it.
	s.engine.wrong.Store(true)
	require.Eventually(t, func() bool { return !s.ask(t, m, kinds["chat"]()) }, 5*time.Minute, time.Millisecond)
	assert.True(t, m.Verified(kinds["text"]()) || s.models.Status()[0].Mismatches > 1, "other kinds are judged by themselves")
	for range 300 {
		require.False(t, s.ask(t, m, kinds["chat"]()), "one that differs, and all have to be equal for long")
	}
	s.engine.wrong.Store(false)
	equal := 0
	for ; !s.ask(t, m, kinds["chat"]()); equal++ {
		require.Less(t, equal, 500, "not mended")
	}
	require.GreaterOrEqual(t, equal, 200) // more where a sample of before was compared late
	// The log entry of a comparison comes after its effect.
	says := `differ from the worker's; the workers tokenize until they are equal again" folder=` + s.models.Status()[0].Folder + " prompts=chat "
	require.Eventually(t, func() bool { return s.logs.count(says) > 0 }, 5*time.Minute, time.Millisecond)
	assert.Equal(t, 1, s.logs.count(says), "said once")
}

// TestAnswerRefutesByItsLength: an answer with another number of prompt tokens than were counted.
func TestAnswerRefutesByItsLength(t *testing.T) {
	s := newTestModels(t, map[string]string{"": modelFolder(t, template)})
	s.models.WorkerUp("w", "m", tokens.Settings{Version: "0.5.23"})
	m, req := s.loaded(t), chatBody(t, "")
	s.models.CompareLength(m, req, 5, 6)
	require.Zero(t, s.models.Status()[0].Mismatches, "nothing of ours was used")
	for range 3 {
		s.ask(t, m, req)
	}
	require.True(t, m.Verified(req))
	s.models.CompareLength(m, req, 5, 5)
	require.True(t, m.Verified(req))
	s.models.CompareLength(m, req, 5, 6)
	require.False(t, m.Verified(req))
}

// TestTurnsCostTheirNewText: the ids of a conversation are those that a worker makes of all of it,
// with any content of the prompt cache.
func TestTurnsAreRemembered(t *testing.T) {
	s := newTestModels(t, map[string]string{"m": modelFolder(t, template)})
	s.models.WorkerUp("w", "m", tokens.Settings{Version: "0.5.23"})
	m := s.loaded(t)
	var history []map[string]string
	for turn := range 20 {
		history = append(history, map[string]string{"role": "user", "content": strings.Repeat(fmt.Sprintf("turn %d <|im_end|> ", turn), 20)})
		raw, err := json.Marshal(map[string]any{"messages": history})
		require.NoError(t, err)
		req := parse(t, openai.APIChat, string(raw))
		own, fresh, err := s.writer.Append(nil, m, req)
		require.NoError(t, err)
		require.False(t, fresh)
		theirs, err := s.source.Prompt(nil, "w", req)
		require.NoError(t, err)
		require.Equal(t, theirs.IDs, own, "turn %d", turn)
		require.Contains(t, m.Text(own), fmt.Sprintf("turn %d <|im_end|>", turn))
	}
}

// TestContinuedMessages: the answer continues the assistant's message, whose ids are those of a text
// of its own, without the token that begins a text. The prompt cache knows nothing of it.
func TestContinuedMessages(t *testing.T) {
	dir := modelFolder(t, template)
	name := filepath.Join(dir, "tokenizer.json")
	raw, err := os.ReadFile(name)
	require.NoError(t, err)
	var file map[string]any
	require.NoError(t, json.Unmarshal(raw, &file))
	file["post_processor"] = map[string]any{
		"type":           "TemplateProcessing",
		"single":         []any{map[string]any{"SpecialToken": map[string]any{"id": "<|im_end|>", "type_id": 0}}, map[string]any{"Sequence": map[string]any{"id": "A", "type_id": 0}}},
		"pair":           []any{},
		"special_tokens": map[string]any{"<|im_end|>": map[string]any{"id": "<|im_end|>", "ids": []int{257}, "tokens": []string{"<|im_end|>"}}},
	}
	raw, err = json.Marshal(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, raw, 0o600))
	config, err := json.Marshal(map[string]any{"chat_template": template, "bos_token": "<|im_end|>"})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), config, 0o600))
	s := newTestModels(t, map[string]string{"m": dir})
	s.models.WorkerUp("w", "m", tokens.Settings{Version: "0.5.23"})
	m := s.loaded(t)
	const asked = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
	for message, want := range map[string]string{"Yes, ": asked + "Yes, ", "": asked, "<|im_end|>x": asked + "<|im_end|>x", " ": asked + " "} {
		body, err := json.Marshal(map[string]any{
			"messages":               []map[string]string{{"role": "user", "content": "hi"}, {"role": "assistant", "content": message}},
			"continue_final_message": true,
		})
		require.NoError(t, err)
		own, _, err := s.writer.Append(nil, m, parse(t, openai.APIChat, string(body)))
		require.NoError(t, err, message)
		assert.Equal(t, bytesOf(want), own, message)
	}
}

// TestWhatIsLeftToTheWorkers: each says why.
func TestWhatIsLeftToTheWorkers(t *testing.T) {
	good := modelFolder(t, template)
	broken := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(broken, "tokenizer.json"), []byte(`{"model":{"type":"Unigram"}}`), 0o600))
	tests := []struct {
		name, folder string
		settings     tokens.Settings
		reason       string
	}{
		{"not here", "", tokens.Settings{Model: "some/model"}, "--model-path"},
		{"no such folder", "/nowhere", tokens.Settings{}, "no such file"},
		{"no text at all", good, tokens.Settings{Skip: true}, "token ids only"},
		{"another tokenizer", good, tokens.Settings{Mode: "slow"}, "slow"},
		{"another kind of model", broken, tokens.Settings{}, "Unigram"},
		{"a template of another kind", modelFolder(t, "{% import 'x' as y %}"), tokens.Settings{Version: "0.5.23"}, "import"},
		{"a template that is a worker's", good, tokens.Settings{Version: "0.5.23", ChatTemplate: "llama-2"}, "llama-2"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			folders := map[string]string{}
			if test.folder != "" {
				folders["m"] = test.folder
			}
			s := newTestModels(t, folders)
			s.models.WorkerUp("w", "m", test.settings)
			require.Eventually(t, func() bool { return strings.Contains(s.models.Status()[0].Reason, test.reason) }, 5*time.Minute, time.Millisecond,
				"reason %s", test.reason)
			assert.Equal(t, "workers", s.models.Status()[0].Chat)
		})
	}
}

// TestHubCache: a hub's name leads to where its library keeps the files of its revision.
func TestHubCache(t *testing.T) {
	hub := t.TempDir()
	t.Setenv("HF_HUB_CACHE", hub)
	model := filepath.Join(hub, "models--some--model")
	require.NoError(t, os.MkdirAll(filepath.Join(model, "refs"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(model, "refs", "main"), []byte(strings.Repeat("ab", 20)+"\n"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(model, "snapshots"), 0o700))
	require.NoError(t, os.Rename(modelFolder(t, template), filepath.Join(model, "snapshots", strings.Repeat("ab", 20))))
	s := newTestModels(t, nil)
	s.models.WorkerUp("w", "m", tokens.Settings{Version: "0.5.23", Model: "some/model"})
	s.loaded(t)
	require.True(t, slices.Contains([]string{"workers, unproved"}, s.models.Status()[0].Chat))

	s.models.WorkerUp("w", "m", tokens.Settings{Version: "0.5.23", Model: "some/model", Revision: "v1"})
	s.reads(t, "--model-path")
	require.NoError(t, os.Rename(filepath.Join(model, "refs", "main"), filepath.Join(model, "refs", "v1")))
	s.models.WorkerUp("w", "m", tokens.Settings{Version: "0.5.23", Model: "some/model", Revision: "v1"})
	s.reads(t, "")
	s.models.WorkerUp("w", "m", tokens.Settings{Version: "0.5.23", Model: "some/model", Revision: "../../x"})
	s.reads(t, "--model-path")
}
