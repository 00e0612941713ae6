//go:build !race

package openai_test

import (
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// TestParseDoesNotAllocate: not even the model's name, where the body before named it too.
func TestParseDoesNotAllocate(t *testing.T) {
	for _, c := range benchBodies() {
		var r openai.Request
		n := testing.AllocsPerRun(10, func() {
			if err := r.Parse(c.api, c.data); err != nil {
				t.Error(err)
			}
			_ = r.PromptFields()
		})
		if n != 0 {
			t.Errorf("%s: Parse allocates %v times, want 0", c.name, n)
		}
	}
}

func TestSpliceDoesNotAllocate(t *testing.T) {
	body := []byte(`{"prompt":"x"}`)
	pieces, field, rid := make([][]byte, 0, 4), make([]byte, 0, 64), make([]byte, 0, openai.RIDLen)
	n := testing.AllocsPerRun(100, func() {
		rid = openai.AppendRID(rid[:0], 1, 2)
		field = openai.AppendRIDField(field[:0], rid)
		pieces = openai.SpliceField(pieces[:0], body, field)
	})
	if n != 0 {
		t.Errorf("SpliceField allocates %v times, want 0", n)
	}
}

func TestUsageScannerDoesNotAllocate(t *testing.T) {
	var s openai.UsageScanner
	chunk := []byte(`data: {"text":"a","meta_info":{"prompt_tokens":1,"completion_tokens":2,"cached_tokens":3},"index":1}` + "\n\n")
	s.Reset(openai.APIGenerate, true)
	_, _ = s.Write(chunk)
	n := testing.AllocsPerRun(100, func() {
		s.Reset(openai.APIGenerate, true)
		_, _ = s.Write(chunk)
		_, _ = s.Write(chunk[:50])
		_, _ = s.Write(chunk[50:])
		_ = s.Usage()
	})
	if n != 0 {
		t.Errorf("UsageScanner allocates %v times an answer, want 0", n)
	}
}

func TestSessionDoesNotAllocate(t *testing.T) {
	var r openai.Request
	for _, fields := range []string{
		`"session_id":"a"`, `"session_params":{"id":"a\n"}`, `"metadata":{"user_id":"{\"session_id\":\"b\"}"}`,
		`"conversation":{"id":"c"}`, `"previous_response_id":"d"`, `"prompt_cache_key":"e"`,
	} {
		body := []byte(`{"text":"hello",` + fields + `}`)
		n := testing.AllocsPerRun(10, func() {
			if err := r.Parse(openai.APIGenerate, body); err != nil {
				t.Error(err)
			}
			if len(r.Session) == 0 {
				t.Errorf("%s: no session", fields)
			}
		})
		if n != 0 {
			t.Errorf("%s: Parse allocates %v times, want 0", fields, n)
		}
	}
}
