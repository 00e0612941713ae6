package openai_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

func TestSpliceField(t *testing.T) {
	tests := []struct{ body, want string }{
		{`{"a":1}`, `{"a":1,"rid":"x"}`},
		{`{}`, `{"rid":"x"}`},
		{" \n{ \t} ", " \n{ \t\"rid\":\"x\"} "},
		{` { "a":{}}`, ` { "a":{},"rid":"x"}`},
		{`{"rid":null}`, `{"rid":null,"rid":"x"}`},
	}
	for _, tt := range tests {
		body := []byte(tt.body)
		pieces := openai.SpliceField(nil, body, []byte(`"rid":"x"`))
		if got := string(slices.Concat(pieces...)); got != tt.want {
			t.Errorf("SpliceField(%q) = %q, want %q", tt.body, got, tt.want)
		}
		if string(body) != tt.body {
			t.Errorf("SpliceField changed the body to %q", body)
		}
	}
}

func TestAppendRID(t *testing.T) {
	form := regexp.MustCompile(`^wp-[0-9a-f]{24}$`)
	for _, tt := range []struct {
		hi   uint64
		lo   uint32
		want string
	}{
		{0, 0, "wp-000000000000000000000000"},
		{0x0123456789abcdef, 0x89abcdef, "wp-0123456789abcdef89abcdef"},
		{1<<64 - 1, 1<<32 - 1, "wp-ffffffffffffffffffffffff"},
	} {
		got := string(openai.AppendRID(nil, tt.hi, tt.lo))
		if got != tt.want || !form.MatchString(got) || len(got) != openai.RIDLen {
			t.Errorf("AppendRID(%x, %x) = %q, want %q", tt.hi, tt.lo, got, tt.want)
		}
	}
	if got := string(openai.AppendItemRID(nil, "wp-1", 12)); got != "wp-1_12" {
		t.Errorf("AppendItemRID = %s", got)
	}
	if got := string(openai.AppendStringField(nil, "rid", `a"b`)); got != `"rid":"a\"b"` {
		t.Errorf("AppendStringField = %s", got)
	}
}

func TestSplitModel(t *testing.T) {
	tests := []struct{ model, served, base, adapter string }{
		{"llama", "llama", "llama", ""},
		{"llama:ada", "llama", "llama", "ada"},
		{"s3://b/m", "s3://b/m", "s3://b/m", ""},
		{"s3://b/m: ada ", "s3://b/m", "s3://b/m", "ada"},
		{"other:ada:x", "llama", "other", "ada:x"},
		{"llama:", "llama", "llama", ""},
		{" a : b ", "", "a", "b"},
		{"", "", "", ""},
	}
	for _, tt := range tests {
		if base, adapter := openai.SplitModel(tt.model, tt.served); base != tt.base || adapter != tt.adapter {
			t.Errorf("SplitModel(%q, %q) = %q, %q, want %q, %q", tt.model, tt.served, base, adapter, tt.base, tt.adapter)
		}
	}
}

func TestErrorsAsJSON(t *testing.T) {
	tests := []struct {
		err    *openai.Error
		status int
		param  any
	}{
		{openai.BadRequest("prompt", "quote \" slash \\ line\n\x7f \xff é"), 400, "prompt"},
		{openai.Unauthorized(), 401, nil},
		{openai.ModelNotFound("x\"y"), 404, "model"},
		{openai.NotFound("/x"), 404, nil},
		{openai.TooLarge(5), 413, nil},
		{openai.RateLimited("slow"), 429, nil},
		{openai.Internal("oops"), 500, nil},
		{openai.Upstream("gone"), 502, nil},
		{openai.Overloaded("full"), 503, nil},
		{openai.NoWorker("m"), 503, nil},
		{openai.UpstreamTimeout("late"), 504, nil},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.err.Status, tt.err.Code), func(t *testing.T) {
			var got struct {
				Error map[string]any `json:"error"`
			}
			out := tt.err.AppendJSON([]byte("x"))[1:]
			if err := json.Unmarshal(out, &got); err != nil || !validJSON(out) {
				t.Fatalf("AppendJSON = %q: %v", out, err)
			}
			if tt.err.Status != tt.status || got.Error["param"] != tt.param || got.Error["type"] != tt.err.Type {
				t.Errorf("status %d, JSON %s", tt.err.Status, out)
			}
			if len(got.Error) != 4 || got.Error["message"] == "" || tt.err.Error() == "" {
				t.Errorf("JSON %s, want the four members", out)
			}
			if sse := string(tt.err.AppendSSE(nil)); sse != "data: "+string(out)+"\n\n" {
				t.Errorf("AppendSSE = %q", sse)
			}
		})
	}
}

func TestAppendTokens(t *testing.T) {
	tests := []struct {
		body string
		want []uint32
		ok   bool
	}{
		{`{"tokens":[1, 2,3],"count":3,"max_model_len":8192}`, []uint32{9, 1, 2, 3}, true},
		{` {"count":0,"tokens":[]}`, []uint32{9}, true},
		{`{"tokens":[[1],[2]]}`, []uint32{9}, false},
		{`{"tokens":[1,-2]}`, []uint32{9}, false},
		{`{"tokens":[1`, []uint32{9}, false},
		{`{"tokens":null}`, []uint32{9}, false},
		{`{}`, []uint32{9}, false},
		{`[]`, []uint32{9}, false},
		{``, []uint32{9}, false},
	}
	for _, tt := range tests {
		got, err := openai.AppendTokens([]uint32{9}, []byte(tt.body))
		if (err == nil) != tt.ok || !slices.Equal(got, tt.want) {
			t.Errorf("AppendTokens(%q) = %v, %v, want %v", tt.body, got, err, tt.want)
		}
	}
}
