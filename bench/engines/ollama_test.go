//go:build engines

package engines_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRoutes: testdata/routes.txt has all paths of the installed SGLang, and no others of SGLang.
func TestRoutes(t *testing.T) {
	pattern := filepath.Join(installation(t), "sglang", "lib", "python3*", "site-packages", "sglang", "srt", "entrypoints", "*.py")
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files at %s: %v", pattern, err)
	}
	// A route, of which some read their path from a variable with a default.
	route := regexp.MustCompile(`(?s)@(?:app|router)\.(?:get|post|put|delete|head|api_route|websocket)\(\s*(?:os\.environ\.get\("\w+",\s*)?"(/[^"]*)"`)
	var installed, known []string
	for _, file := range files {
		if filepath.Base(file) == "engine_info_bootstrap_server.py" { // which has a port of its own
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range route.FindAllSubmatch(text, -1) {
			installed = append(installed, string(found[1]))
		}
	}
	text, err := os.ReadFile("testdata/routes.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "SGLang "); ok {
			known = append(known, path)
		}
	}
	slices.Sort(installed)
	if installed = slices.Compact(installed); !slices.Equal(installed, known) {
		t.Errorf("SGLang serves %q\ntestdata/routes.txt has %q", installed, known)
	}
}

// TestRealOllamaAndSessions asks two engines by Ollama's API and in sessions.
func TestRealOllamaAndSessions(t *testing.T) {
	installation(t)
	dir := t.TempDir()
	p := &proof{keeper: newKeeper(), dir: dir, binary: buildWarmpath(t, dir)}
	p.engines = startEngines(t, p.keeper, dir, 2)
	r := startRouter(t, p.keeper, dir, p.binary, "kv", p.engines)
	defer r.proc.stop(5 * time.Second)
	t.Run("ollama", func(t *testing.T) { p.ollama(t, r) })
	t.Run("sessions", func(t *testing.T) { p.sessions(t, r) })
}

// ollama holds conversations: each next turn finds the one before in the cache of its engine.
func (p *proof) ollama(t *testing.T, r *router) {
	type answer struct {
		Message  message
		Response string
		Done     bool
		Prompt   int `json:"prompt_eval_count"`
	}
	for chat := range 6 {
		talk := []message{{"system", fmt.Sprintf("%d %s", chat, strings.Repeat("be brief and kind ", 20))}}
		holder := ""
		for turn := range 3 {
			talk = append(talk, message{"user", fmt.Sprintf("question %d", turn)})
			body, err := json.Marshal(document{
				"model": served, "messages": talk, "stream": turn == 1, "options": document{"num_predict": answerTokens, "temperature": 0},
			})
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.Post(r.url+"/api/chat", "application/json", strings.NewReader(string(body)))
			if err != nil {
				t.Fatal(err)
			}
			said, last := "", answer{}
			for lines := json.NewDecoder(resp.Body); lines.More(); {
				last = answer{}
				if err := lines.Decode(&last); err != nil {
					t.Fatal(err)
				}
				said += last.Message.Content
			}
			resp.Body.Close()
			at := resp.Header.Get("X-Warmpath-Worker")
			if resp.StatusCode != http.StatusOK || !last.Done || turn != 1 && last.Prompt == 0 {
				t.Fatalf("chat %d turn %d: %d %+v", chat, turn, resp.StatusCode, last)
			}
			if turn > 0 && at != holder {
				t.Errorf("chat %d turn %d went to %s, the one before to %s", chat, turn, at, holder)
			}
			holder, talk = at, append(talk, message{"assistant", said})
			r.waitIdle(t)
		}
	}
	for path, body := range map[string]string{
		"/api/generate": `{"model":"tiny","prompt":"once upon a time","stream":false,"options":{"num_predict":4}}`, "/api/show": `{"model":"tiny"}`,
	} {
		if status, answer := r.answerTo(t, path, body); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
}

// sessions continues sessions, whose history the engine puts before each prompt.
func (p *proof) sessions(t *testing.T, r *router) {
	for i := range 4 {
		more := ""
		if i%2 == 1 {
			more = fmt.Sprintf(`,"session_id":"mine %d"`, i)
		}
		status, opened := r.answerTo(t, "/open_session", `{"capacity_of_str_len":1000`+more+`}`)
		var id string
		if err := json.Unmarshal([]byte(opened), &id); status != http.StatusOK || err != nil {
			t.Fatalf("open: %d %s", status, opened)
		}
		length, last := 0, ""
		for turn := range 3 {
			status, text := r.answerTo(t, "/generate", fmt.Sprintf(
				`{"input_ids":[%d,8,9,10],"sampling_params":{"max_new_tokens":4,"temperature":0,"ignore_eos":true},"session_params":{"id":%q%s}}`, 7+turn, id, last))
			var a struct {
				Meta struct {
					ID     string
					Prompt int `json:"prompt_tokens"`
				} `json:"meta_info"`
			}
			if err := json.Unmarshal([]byte(text), &a); status != http.StatusOK || err != nil {
				t.Fatalf("turn %d: %d %s", turn, status, text)
			}
			if turn > 0 && a.Meta.Prompt <= length {
				t.Errorf("turn %d has a prompt of %d tokens behind one of %d: its history is missing", turn, a.Meta.Prompt, length)
			}
			length, last = a.Meta.Prompt, fmt.Sprintf(`,"rid":%q`, a.Meta.ID)
		}
		if status, text := r.answerTo(t, "/close_session", fmt.Sprintf(`{"session_id":%q}`, id)); status != http.StatusOK {
			t.Errorf("close: %d %s", status, text)
		}
		if status, text := r.answerTo(t, "/generate", fmt.Sprintf(`{"input_ids":[7],"session_params":{"id":%q}}`, id)); status != http.StatusBadRequest {
			t.Errorf("a closed session: %d %s", status, text)
		}
	}
}
