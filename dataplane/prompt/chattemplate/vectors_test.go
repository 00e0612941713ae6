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

// TestVectors wants every template that was written by hand to render as Jinja2 renders it.
func TestVectors(t *testing.T) {
	v := readVectors(t)
	for _, vector := range v.Hand {
		if check(t, v.Vars, vector) {
			_, err := render(*vector[0], v.Vars)
			t.Errorf("%s\nis left to the worker: %v", *vector[0], err)
		}
	}
}

// TestGeneratedVectors applies every filter, test, operator and method to every type. Being unsure
// is allowed, being wrong is not.
func TestGeneratedVectors(t *testing.T) {
	v := readVectors(t)
	unsure := 0
	for _, vector := range v.Generated {
		if check(t, v.Vars, vector) {
			unsure++
		}
	}
	t.Logf("%d of %d are left to the worker", unsure, len(v.Generated))
	if unsure > len(v.Generated)/10 {
		t.Errorf("%d of %d are left to the worker, want at most a tenth", unsure, len(v.Generated))
	}
}

// TestPrograms renders random programs: scopes, loops, macros, whitespace control.
func TestPrograms(t *testing.T) {
	v := readVectors(t)
	unsure := 0
	for _, vector := range v.Programs {
		if check(t, v.Vars, vector) {
			unsure++
		}
	}
	t.Logf("%d of %d are left to the worker", unsure, len(v.Programs))
	if unsure > len(v.Programs)/10 {
		t.Errorf("%d of %d are left to the worker, want at most a tenth", unsure, len(v.Programs))
	}
}
