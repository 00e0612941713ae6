package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/bench/replay"
)

func TestBenchReplayOnItsOwnCluster(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.json")
	cmd := newBenchCommand()
	var out, progress bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&progress)
	cmd.SetArgs([]string{
		"replay", "--trace", "../../bench/replay/testdata/mooncake_conversation_200.jsonl",
		"--requests", "30", "--workers", "2", "--time-scale", "200", "--json", file,
	})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("bench replay = %v\n%s", err, out.String())
	}
	for _, want := range []string{"kv", "round-robin", "hit rate", "TTFT p99", "worker 2 by share", "x 200"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
	if !strings.Contains(progress.String(), "round-robin: 30 of 30 requests answered") {
		t.Errorf("progress is %q", progress.String())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var results []replay.Result
	if err := json.Unmarshal(text, &results); err != nil || len(results) != 2 {
		t.Fatalf("%d results in %s: %v", len(results), text, err)
	}
	for _, r := range results {
		if r.Requests != 30 || r.Errors != 0 || len(r.Workers) != 2 || r.Overlap.Compared != 30 {
			t.Errorf("result %+v, want 30 answers of 2 workers with an overlap each", r)
		}
	}
}

// TestBenchReplayToAURL: the forecast is of the workers that the flags tell of, and of requests that
// come as often as they were sent, unless the workers there run as much faster.
func TestBenchReplayToAURL(t *testing.T) {
	o := replayOptions{workers: 2, cacheTokens: 1_000_000, prefillRate: 16_000}
	o.cfg.PageSize, o.cfg.TimeScale = 16, 200
	b, err := o.simulated(t.Context(), "kv")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	}()
	row := regexp.MustCompile(`\(the URL's\) +10 +10 +\S+ s +(\S+) s `)
	forecasts := map[string]bool{}
	for _, simulated := range []string{"--simulated=false", "--simulated"} {
		out, _, err := bench(t, "replay", "--url", b.url, "--requests", "10", "--workers", "2", "--time-scale", "100", simulated)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		found := row.FindStringSubmatch(out)
		if found == nil || !strings.Contains(out, "kv on 2 workers that have empty caches of 1,000,000 tokens at first, and compute 16,000 prompt tokens a second") {
			t.Fatalf("%s has no forecast:\n%s", simulated, out)
		}
		forecasts[found[1]] = true
	}
	if len(forecasts) != 2 {
		t.Errorf("the same mean TTFT is forecast whether requests come faster or not: %v", forecasts)
	}
}

func TestBenchReplayRefuses(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"unknown API", []string{"--api", "embeddings"}, "want generate, completions, chat or messages"},
		{"unknown policy", []string{"--policy", "magic", "--requests", "1"}, "magic"},
		{"missing trace", []string{"--trace", "/nowhere"}, "cannot open the trace"},
		{"endless", []string{"--requests", "0"}, "has no end"},
		{"no workers", []string{"--workers", "0"}, "cannot start 0 workers"},
		{"bad URL", []string{"--url", "localhost"}, "cannot replay to the URL: cannot use \"localhost\": replay: bad URL: want http://"},
		{
			"users who think faster", []string{
				"--url", "http://127.0.0.1:1", "--sessions", "../../bench/trace/testdata/sessions.jsonl", "--users", "2", "--workers", "2", "--time-scale", "4",
			}, "cannot forecast users who think faster",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := newBenchReplayCommand()
			cmd.SetOut(&bytes.Buffer{})
			cmd.SetErr(&bytes.Buffer{})
			cmd.SetArgs(tt.args)
			if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("bench replay %v = %v, want an error with %q", tt.args, err, tt.want)
			}
		})
	}
}

func TestBenchReplayOfUsers(t *testing.T) {
	sessions := []string{"replay", "--sessions", "../../bench/trace/testdata/sessions.jsonl", "--workers", "2", "--time-scale", "300", "--policy", "kv", "--for", userMinutes, "--warmup", "15s"}
	for _, api := range []string{"generate", "messages"} {
		out, _, err := bench(t, append(sessions, "--users", "4", "--api", api, "--session-field", "metadata.user_id")...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", api, err, out)
		}
		for _, want := range []string{"ITL p95", "hit rate", "forecast", "worker 1 by share"} {
			if !strings.Contains(out, want) {
				t.Errorf("the table lacks %q:\n%s", want, out)
			}
		}
	}
	for _, args := range [][]string{
		{"--users", "3"},
		{"--sessions", "../../bench/trace/testdata/sessions.jsonl"},
		{"--sessions", "no such file", "--users", "2"},
		{"--sessions", "../../bench/trace/testdata/sessions.jsonl", "--users", "-2"},
		{"--sessions", "../../bench/trace/testdata/sessions.jsonl", "--users", "2", "--session-field", "a b"},
		{"--sessions", "../../bench/trace/testdata/sessions.jsonl", "--users", "2", "--url", "http://127.0.0.1:1", "--for", "0s"},
	} {
		if _, _, err := bench(t, append([]string{"replay"}, args...)...); err == nil {
			t.Errorf("%v is not refused", args)
		}
	}
}
