package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/bench/index"
)

// benchIndex runs bench index.
func benchIndex(t *testing.T, args ...string) (out, progress string, err error) {
	t.Helper()
	cmd := newRoot()
	var stdout, stderr bytes.Buffer
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SetArgs(append([]string{"index", "--time", "5ms"}, args...))
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func TestBenchIndexWritesAndPlays(t *testing.T) {
	dir := t.TempDir()
	file, results := filepath.Join(dir, "w.bin"), filepath.Join(dir, "out.json")
	trace := "../../bench/replay/testdata/mooncake_conversation_200.jsonl"
	for _, family := range []string{"conversation", "shared", "holes", trace} {
		if _, _, err := benchIndex(t, "--generate", family, "--requests", "60", "--workers", "2", "--write", file); err != nil {
			t.Fatalf("--generate %s --write = %v", family, err)
		}
		out, progress, err := benchIndex(t, "--workload", file, "--rounds", "1", "--json", results)
		if err != nil || !strings.Contains(out, "wrong answers: 0 of 60") || !strings.Contains(out, "w.bin: 2 workers") {
			t.Errorf("%s: bench index = %v\n%s", family, err, out)
		}
		if !strings.Contains(progress, "round 1 of 1: look-ups beside 1 writer") {
			t.Errorf("progress is %q", progress)
		}
		text, err := os.ReadFile(results)
		if err != nil {
			t.Fatal(err)
		}
		var r index.Result
		if err := json.Unmarshal(text, &r); err != nil || r.LookUps != 60 || len(r.Metrics) == 0 || len(r.Metrics[0].Values) != 1 {
			t.Errorf("%s: JSON is %s: %v", family, text, err)
		}
	}
}

func TestBenchIndexRefuses(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"nothing to play", nil, "[workload generate]"},
		{"two workloads", []string{"--workload", "a", "--generate", "shared"}, "[generate workload]"},
		{"write what was read", []string{"--workload", "a", "--write", "b"}, "[workload write]"},
		{"no file", []string{"--workload", "/nowhere"}, "cannot read the workload"},
		{"bad file", []string{"--workload", empty}, "make it again with --write"},
		{"unknown family", []string{"--generate", "magic"}, "give conversation, shared, holes or a file"},
		{"empty trace", []string{"--generate", empty}, "it has no request"},
		{"no workers", []string{"--generate", "shared", "--workers", "0"}, "give 1 to 65535"},
		{"small caches", []string{"--generate", "shared", "--requests", "9", "--blocks", "10"}, "give workers more blocks"},
		{"no rounds", []string{"--generate", "shared", "--requests", "9", "--rounds", "0"}, "give at least one"},
		{
			"nowhere to write",
			[]string{"--generate", "shared", "--requests", "9", "--write", filepath.Join(empty, "w")},
			"cannot write the workload",
		},
		{
			"nowhere for results",
			[]string{"--generate", "shared", "--requests", "9", "--rounds", "1", "--json", filepath.Join(empty, "w")},
			"cannot write the results",
		},
	}
	for _, tt := range tests {
		if _, _, err := benchIndex(t, tt.args...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: bench index %v = %v, want an error with %q", tt.name, tt.args, err, tt.want)
		}
	}
}
