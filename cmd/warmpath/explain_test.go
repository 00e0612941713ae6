package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// patience bounds each wait; a passing test comes nowhere near it.
const patience = 2 * time.Minute

// warmpath runs the command line and returns its output.
func warmpath(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestExplainCommand(t *testing.T) {
	cl, base := startCluster(t, 3, sim.Config{}, "kv")
	ids := prompt(800, 1)
	home := generate(t, cl, ids, "").worker
	settle(t, cl)
	list := strings.Trim(fmt.Sprint(ids), "[]") // blanks between them

	out, err := warmpath(t, "", "explain", "--router", base, "--ids", list)
	require.NoError(t, err)
	assert.Contains(t, out, "prompt of 800 tokens (exact)   policy kv")
	assert.Contains(t, out, "goes to "+home+": lowest predicted time to first token")
	lines := strings.Split(out, "\n")
	assert.Equal(t, "-> "+home+"  ready, events live", lines[3])
	assert.Regexp(t, "^     cached 784  credit ", lines[4], "all whole pages but for the last token's")
	assert.Regexp(t, "^     TTFT [0-9.]+ s:  compute ", lines[5])
	assert.Equal(t, 3, strings.Count(out, " ready, "), out)
	for _, line := range lines {
		assert.LessOrEqual(t, len(line), 80, "a terminal's width")
	}

	// The explanation comes true.
	assert.Equal(t, home, generate(t, cl, ids, "").worker)

	// Text, messages, and what the router says of itself.
	file := filepath.Join(t.TempDir(), "chat.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"messages":[{"role":"user","content":"Hello"}]}`), 0o600))
	for _, args := range [][]string{{"--text", "Hello"}, {"--body", file}, {"--body", "-"}} {
		out, err := warmpath(t, `{"prompt":"Hello"}`, append([]string{"explain", "--json", "--seed", "5", "--router", base}, args...)...)
		require.NoError(t, err, args)
		var e admin.Explained
		require.NoError(t, json.Unmarshal([]byte(out), &e))
		assert.Equal(t, "5", e.Seed)
		assert.NotEmpty(t, e.Winner)
		assert.Positive(t, e.Prompt.Tokens)
	}
	for _, args := range [][]string{{}, {"--text", "a", "--ids", "1"}, {"--ids", "1,x"}, {"--body", file + "x"}, {"--text", "a", "--seed", "x"}} {
		_, err := warmpath(t, "", append([]string{"explain", "--router", base}, args...)...)
		assert.Error(t, err, args)
	}
	_, err = warmpath(t, "", "explain", "--router", "http://127.0.0.1:1", "--text", "a")
	assert.ErrorContains(t, err, "is it running")
}

// TestLoadIsFollowed: the router learns speed and sizes of each rank from its load messages, and where there are none by asking.
func TestLoadIsFollowed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, source string
		worker       sim.Config
	}{
		{"published", "published", sim.Config{DPSize: 2}},
		{"asked for", "polled", sim.Config{EventConfig: sim.EventConfig{Load: "off"}}},
		{"asked for, without events", "polled", sim.Config{EventConfig: sim.EventConfig{Events: "off"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.worker.CachePages, tt.worker.MaxRunning = 4000, 7
			cl, base := startCluster(t, 1, tt.worker, "round-robin")
			seed := 0
			for ; seed < 16; seed++ { // 72,000 tokens for each rank: a speed counts from 65,536
				send(t, base, prompt(9000, seed), "")
			}
			testkit.AwaitThat(t, func() bool {
				for _, w := range cl.router.Status().Workers {
					if w.Load.Source != tt.source || w.Load.PrefillPerSecond == 0 {
						send(t, base, prompt(9000, seed), "") // where a message was late, the next one tells
						seed++
						return false
					}
				}
				return true
			}, func() string { return fmt.Sprintf("%+v", cl.router.Status().Workers) })
			for _, w := range cl.router.Status().Workers {
				assert.EqualValues(t, 4000*page, w.Load.PoolTokens)
				assert.EqualValues(t, 7, w.Load.MaxRunning)
			}
			w := cl.router.Status().Workers[0]
			assert.Positive(t, metric(t, base, fmt.Sprintf(`warmpath_rank_prefill_tokens_per_second{rank="%d",worker=%q}`, w.Rank, w.URL)))
		})
	}
}

// TestSessionAffinity: with a policy that would take turns, a session has one rank, by its body or by its header.
func TestSessionAffinity(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	router := router.Config{Listen: "127.0.0.1:0", Policy: config.Policy{Name: "round-robin", SessionAffinity: true}, Log: log}
	unhurried(&router)
	cl, err := newCluster(clusterSize{workers: 3}, sim.Config{Log: log, TimeScale: 50}, router)
	require.NoError(t, err)
	base := "http://" + cl.router.Addr()
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { done <- cl.run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
		http.DefaultClient.CloseIdleConnections()
	})
	awaitCluster(t, cl, 3)
	ask := func(body, header string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/completions", strings.NewReader(body))
		require.NoError(t, err)
		if header != "" {
			req.Header.Set("X-Session-ID", header)
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode)
		return resp.Header.Get("X-Warmpath-Worker")
	}
	const plain = `{"model":"simulated","prompt":"Hi","max_tokens":1}`
	first := ask(plain, "one")
	for range 5 {
		assert.Equal(t, first, ask(plain, "one"))
	}
	const named = `{"model":"simulated","prompt":"Hi","max_tokens":1,"session_id":"two"}`
	second := ask(named, "")
	assert.Equal(t, second, ask(named, ""))
	assert.Equal(t, second, ask(named, "one"), "the body's name comes first")
	seen := map[string]bool{}
	for range 3 {
		seen[ask(plain, "")] = true
	}
	assert.Len(t, seen, 3, "without a session they take turns")
}
