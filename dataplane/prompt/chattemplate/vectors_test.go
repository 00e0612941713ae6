package chattemplate_test

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/prompt/chattemplate"
)

// vectors is testdata/vectors.json: templates, and their texts by Jinja2; null where it raises.
type vectors struct {
	Vars                      json.RawMessage
	Hand, Generated, Programs [][2]*string
}

func readVectors(tb testing.TB) vectors {
	tb.Helper()
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		tb.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(raw, &v); err != nil {
		tb.Fatal(err)
	}
	return v
}

var now = time.Date(2026, 3, 7, 9, 5, 4, 0, time.UTC)

func clock() time.Time { return now }

// render renders a template with the variables of the vectors.
func render(source string, vars json.RawMessage) (string, error) {
	t, err := chattemplate.Compile(source)
	if err != nil {
		return "", err
	}
	out, err := t.Render(nil, chattemplate.Input{Messages: []byte(`[]`), Kwargs: vars, AddGenerationPrompt: true, Now: now})
	return string(out), err
}

// check compares one render with Jinja's, and reports whether it was left to the worker.
func check(t *testing.T, vars json.RawMessage, vector [2]*string) (unsure bool) {
	t.Helper()
	source, want := *vector[0], vector[1]
	got, err := render(source, vars)
	switch {
	case errors.Is(err, chattemplate.ErrUnsupported):
		return true
	case want == nil && err == nil:
		t.Errorf("%s\n got %q\nwant an error", source, got)
	case want != nil && err != nil:
		t.Errorf("%s\n got error %v\nwant %q", source, err, *want)
	case want != nil && got != *want:
		t.Errorf("%s\n got %q\nwant %q", source, got, *want)
	}
	return false
}

// TestVectors renders templates as Jinja2 renders them: those written by hand, every filter, test,
// operator and method applied to every type, and random programs of scopes, loops, macros and
// whitespace control. Being unsure is allowed of a tenth of the latter, being wrong is not.
func TestVectors(t *testing.T) {
	v := readVectors(t)
	for name, list := range map[string][][2]*string{"hand": v.Hand, "generated": v.Generated, "programs": v.Programs} {
		unsure := 0
		for _, vector := range list {
			if !check(t, v.Vars, vector) {
				continue
			}
			if unsure++; name == "hand" {
				_, err := render(*vector[0], v.Vars)
				t.Errorf("%s\nis left to the worker: %v", *vector[0], err)
			}
		}
		if t.Logf("%s: %d of %d are left to the worker", name, unsure, len(list)); unsure > len(list)/10 {
			t.Errorf("%s: %d of %d are left to the worker, want at most a tenth", name, unsure, len(list))
		}
	}
}
