package openai_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// scanAnswer feeds an answer in pieces of the sizes that next gives.
func scanAnswer(s *openai.UsageScanner, answer []byte, next func() int) openai.Usage {
	for len(answer) > 0 {
		n := min(max(next(), 1), len(answer))
		piece := bytes.Clone(answer[:n])
		_, _ = s.Write(piece)
		clear(piece) // the scanner may keep none of it
		answer = answer[n:]
	}
	return s.Usage()
}

// naiveUsage decodes the whole answer.
func naiveUsage(api openai.API, sse bool, answer []byte) (u openai.Usage) {
	if !sse {
		var list []map[string]json.RawMessage
		if json.Unmarshal(answer, &list) != nil {
			list = make([]map[string]json.RawMessage, 1)
			_ = json.Unmarshal(answer, &list[0])
		}
		for _, m := range list {
			u = sumUsage(u, usageOf(m))
		}
		return u
	}
	byIndex := map[int]openai.Usage{}
	for line := range bytes.Lines(answer) {
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		var m map[string]json.RawMessage
		if !ok || json.Unmarshal(data, &m) != nil || (m["usage"] == nil && m["meta_info"] == nil) {
			continue
		}
		i := 0
		if api == openai.APIGenerate && m["index"] != nil {
			_ = json.Unmarshal(m["index"], &i)
		}
		if v := usageOf(m); v != (openai.Usage{}) {
			byIndex[i] = v
		}
	}
	for _, v := range byIndex {
		u = sumUsage(u, v)
	}
	return u
}

func sumUsage(a, b openai.Usage) openai.Usage {
	return openai.Usage{
		PromptTokens: a.PromptTokens + b.PromptTokens, CachedTokens: a.CachedTokens + b.CachedTokens,
		CompletionTokens: a.CompletionTokens + b.CompletionTokens,
		HasPrompt:        a.HasPrompt || b.HasPrompt, HasCached: a.HasCached || b.HasCached,
	}
}

func usageOf(m map[string]json.RawMessage) (u openai.Usage) {
	type counts struct {
		Prompt     *int `json:"prompt_tokens"`
		Completion int  `json:"completion_tokens"`
		Cached     *int `json:"cached_tokens"`
		Details    *struct {
			Cached *int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	var c counts
	raw := m["usage"]
	if raw == nil {
		raw = m["meta_info"]
	}
	_ = json.Unmarshal(raw, &c)
	if c.Details != nil && c.Cached == nil {
		c.Cached = c.Details.Cached
	}
	u.CompletionTokens = c.Completion
	if c.Prompt != nil {
		u.PromptTokens, u.HasPrompt = *c.Prompt, true
	}
	if c.Cached != nil {
		u.CachedTokens, u.HasCached = *c.Cached, true
	}
	return u
}

// TestUsageOfRealAnswers scans the engine's own answers, cut everywhere.
func TestUsageOfRealAnswers(t *testing.T) {
	files, err := filepath.Glob("testdata/answers/*")
	if err != nil || len(files) < 10 {
		t.Fatalf("testdata: %d files, %v", len(files), err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			answer, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			api, sse := openai.APIChat, strings.HasSuffix(name, ".sse")
			if strings.HasPrefix(filepath.Base(name), "generate") {
				api = openai.APIGenerate
			}
			want := naiveUsage(api, sse, answer)
			var s openai.UsageScanner
			for size := 1; size < 200; size++ {
				s.Reset(api, sse)
				if got := scanAnswer(&s, answer, func() int { return size }); got != want {
					t.Fatalf("pieces of %d: usage %+v, want %+v", size, got, want)
				}
			}
		})
	}
}

func TestUsageKnownNumbers(t *testing.T) {
	tests := []struct {
		file string
		api  openai.API
		sse  bool
		want openai.Usage
	}{
		{"chat_no_usage.sse", openai.APIChat, true, openai.Usage{}},
		{"error.sse", openai.APIGenerate, true, openai.Usage{}},
		{"tokenize.json", openai.APIOther, false, openai.Usage{}},
	}
	for _, tt := range tests {
		answer, err := os.ReadFile(filepath.Join("testdata/answers", tt.file))
		if err != nil {
			t.Fatal(err)
		}
		var s openai.UsageScanner
		s.Reset(tt.api, tt.sse)
		if got := scanAnswer(&s, answer, func() int { return len(answer) }); got != tt.want {
			t.Errorf("%s: usage %+v, want %+v", tt.file, got, tt.want)
		}
	}
}

func TestUsageIsNotFooled(t *testing.T) {
	honest := `"usage":{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1}}`
	want := openai.Usage{PromptTokens: 3, CompletionTokens: 2, CachedTokens: 1, HasPrompt: true, HasCached: true}
	texts := []string{
		`"cached_tokens": 5`, `{"cached_tokens":5}`, `\"cached_tokens\":5,`, `,"prompt_tokens":9,`, `cached_tokens":5`,
		"\n\ndata: {\"usage\":{\"cached_tokens\":5}}\n\n", `\`, `"`, `_tokens"`, `"cached_tokens`,
	}
	for _, text := range texts {
		quoted, _ := json.Marshal(text)
		for _, answer := range []string{
			`{"choices":[{"text":` + string(quoted) + `}],` + honest + `}`,
			`{` + honest + `,"text":` + string(quoted) + `}`,
			`{"m":{` + string(quoted) + `:1},"logprobs":{"cached_tokens":-0.5,"prompt_tokens":0.0,"completion_tokens":1e3},` + honest + `}`,
		} {
			for size := 1; size < 90; size++ {
				var s openai.UsageScanner
				if got := scanAnswer(&s, []byte(answer), func() int { return size }); got != want {
					t.Fatalf("answer %s in pieces of %d: %+v, want %+v", answer, size, got, want)
				}
			}
		}
	}
}

// FuzzUsageAgainstNaive builds an answer of SGLang's shapes around a text and cuts it at random.
func FuzzUsageAgainstNaive(f *testing.F) {
	for i := range 12 {
		f.Add(uint64(i), `he said "cached_tokens": 5, {"usage":{"prompt_tokens":1}} \`)
	}
	f.Fuzz(func(t *testing.T, seed uint64, text string) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		api, sse, answer := randomAnswer(rnd, text)
		want := naiveUsage(api, sse, answer)
		var s openai.UsageScanner
		s.Reset(openai.APIGenerate, true)
		_, _ = s.Write([]byte(`data: {"meta_info":{"prompt_tokens":9,"cached_tokens":9},"index":3}` + "\n"))
		s.Reset(api, sse)
		widest := []int{1, 5, 40, 300, 5000}[rnd.IntN(5)]
		if got := scanAnswer(&s, answer, func() int { return 1 + rnd.IntN(widest) }); got != want {
			t.Fatalf("answer %s:\nusage %+v, want %+v", answer, got, want)
		}
	})
}

func randomAnswer(rnd *rand.Rand, text string) (api openai.API, sse bool, answer []byte) {
	sse = rnd.IntN(2) == 0
	quoted, _ := json.Marshal(text)
	if rnd.IntN(2) == 0 {
		api = openai.APIGenerate
	} else {
		api = openai.APIChat
	}
	n := 1 + rnd.IntN(4)
	var parts []string
	for i := range n {
		parts = append(parts, randomPart(rnd, api, sse, i, string(quoted)))
	}
	switch {
	case sse:
		return api, sse, []byte("data: " + strings.Join(parts, "\n\ndata: ") + "\n\ndata: [DONE]\n\n")
	case api == openai.APIGenerate && n > 1:
		return api, sse, []byte("[" + strings.Join(parts, ",") + "]")
	}
	return api, sse, []byte(parts[0])
}

func randomPart(rnd *rand.Rand, api openai.API, sse bool, i int, text string) string {
	p, c, k := rnd.IntN(100000), rnd.IntN(50), rnd.IntN(100000)
	if api != openai.APIGenerate {
		details := `null`
		if rnd.IntN(2) == 0 {
			details = fmt.Sprintf(`{"cached_tokens": %d}`, k)
		}
		usage := fmt.Sprintf(`{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":%s}`, p, p+c, c, details)
		if sse && rnd.IntN(3) == 0 {
			usage = "null"
		}
		return fmt.Sprintf(`{"id":"x","choices":[{"index":0,"delta":{"content":%s}}],"usage":%s,"model":%s}`, text, usage, text)
	}
	tail := ""
	if sse && rnd.IntN(2) == 0 {
		tail = fmt.Sprintf(`,"index":%d`, i%2)
	}
	return fmt.Sprintf(`{"text":%s,"output_ids":[1,2],"meta_info":{"id":%s,"finish_reason":null,"prompt_tokens":%d,"e2e":0.5,"completion_tokens":%d,"cached_tokens":%d,"cached_tokens_details":{"device":%d}}%s}`,
		text, text, p, c, k, k, tail)
}
