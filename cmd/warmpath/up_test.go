package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// TestUpTellsWhatToTryAndStops follows what `warmpath up` prints.
func TestUpTellsWhatToTryAndStops(t *testing.T) {
	cmd := newUpCommand()
	out, tell := io.Pipe()
	cmd.SetOut(tell)
	cmd.SetArgs([]string{"--listen", "127.0.0.1:0", "--workers", "2"})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx); _ = tell.Close() }()
	var seen bytes.Buffer
	buf := make([]byte, 4096)
	for !strings.Contains(seen.String(), "Ctrl-C") {
		n, err := out.Read(buf)
		require.NoError(t, err, seen.String())
		seen.Write(buf[:n])
	}
	text := seen.String()
	commands := regexp.MustCompile(`(?m)^  (?:body .* \| )?\S+ (workers|explain|drain|undrain|sim fault)( .*)$`).FindAllStringSubmatch(strings.ReplaceAll(text, "; ", "\n  "), -1)
	assert.Len(t, commands, 6, text)
	rest := make(chan string)
	go func() { more, _ := io.ReadAll(out); rest <- string(more) }()

	_, script, _ := strings.Cut(text, "  SYSTEM=")
	script, _, _ = strings.Cut(script, "  done\n")
	script = "  SYSTEM=" + script + "  done\n"
	define, _, _ := strings.Cut(script, "  for QUESTION")
	asked, err := exec.CommandContext(t.Context(), "bash", "-ec", define+"body 'And now?'").Output()
	require.NoError(t, err)
	_, err = exec.LookPath("curl")
	turns := err == nil
	if turns {
		printed, err := exec.CommandContext(t.Context(), "bash", "-ec", script).CombinedOutput()
		require.NoError(t, err, "%s\n%s", script, printed)
		assert.Equal(t, 2, bytes.Count(printed, []byte("first byte after ")), "%s", printed)
		router := regexp.MustCompile(`router +(\S+)`).FindStringSubmatch(text)[1]
		var st admin.Status
		require.NoError(t, json.Unmarshal([]byte(fetch(http.MethodGet, router+"/status", "")), &st))
		assert.EqualValues(t, 2, st.Requests)
		assert.Greater(t, st.HitTokens, st.PromptTokens*2/5, "the second turn is cached")
	}
	for _, c := range commands {
		args := strings.Fields(c[1] + c[2])
		printed, err := warmpath(t, string(asked), args...)
		require.NoError(t, err, args)
		assert.NotEmpty(t, printed, args)
		if c[1] == "explain" && turns {
			assert.Regexp(t, `^prompt of (\d+) tokens \(exact\)[^>]+\n-> \S+  ready, events live\n     cached 6000 `, printed, "the third turn as well")
		}
	}
	stop()
	assert.Contains(t, <-rest, "warmpath: stopped")
	require.NoError(t, <-done)
}

func TestLiveLine(t *testing.T) {
	st := admin.Status{Workers: make([]admin.WorkerStatus, 300)}
	st.Requests, st.HitTokens, st.PromptTokens, st.HitRate = 1_000_000, 2800, 5600, 0.5
	for i := range st.Workers {
		st.Workers[i].State, st.Workers[i].Share = "ready", 1.0/300
	}
	st.Workers[0].HitTokens, st.Workers[0].Load.PrefillPerSecond = 2800, 1000
	whole := liveLine(st, 1, 0)
	assert.Contains(t, whole, "cached 50% of 5600 tokens  saved 2.8 s prefill  errors 0  in flight 0  share 0%")
	st.Workers[1].Load.PrefillPerSecond, st.Workers[0].Load.PrefillPerSecond, st.Workers[0].State = 1000, 0, "dead"
	assert.Contains(t, liveLine(st, 1, 0), "saved 2.8 s prefill", "the death of a worker takes nothing back")
	st.Workers[0].State = "ready"
	for width := 1; width < 300; width++ {
		line := liveLine(st, 1, width)
		assert.Less(t, len([]rune(line)), width)
		assert.True(t, strings.HasPrefix(whole, strings.TrimSuffix(strings.TrimSuffix(line, "…"), " ")), line)
	}
}

// TestLogClearsTheLiveLine: on a terminal a log line begins at the left edge, in one write.
func TestLogClearsTheLiveLine(t *testing.T) {
	var screen bytes.Buffer
	n, err := fmt.Fprintln(lineClearer{&screen}, "level=WARN")
	require.NoError(t, err)
	assert.Equal(t, len("level=WARN\n"), n)
	assert.Equal(t, "\r\x1b[Klevel=WARN\n", screen.String())
	assert.Same(t, &screen, besideLine(os.Stdout, &screen), "a file or a pipe keeps its bytes")
}

// TestCommandsAskTheRouter: a router alone, without a cluster, answers for its workers, and
// WARMPATH_ROUTER names it.
func TestCommandsAskTheRouter(t *testing.T) {
	cl, base := startCluster(t, 1, sim.Config{}, "kv")
	url := cl.sims[0].URL()
	t.Setenv(routerEnv, base+"/")
	text, err := warmpath(t, "", "workers")
	require.NoError(t, err)
	assert.Regexp(t, url+` +ready +regular +simulated +0 +0 +0 +- +live +closed`, text)
	text, err = warmpath(t, "", "drain", url+"/", "--wait")
	require.NoError(t, err)
	assert.Equal(t, url+" is draining\n"+url+" has nothing in flight\n", text)
	assert.Equal(t, "draining", stateAt(cl.router, url))
	text, err = warmpath(t, "", "workers")
	require.NoError(t, err)
	assert.Contains(t, text, url+" is draining: 0 requests in flight; reason: operator\n")
	text, err = warmpath(t, "", "workers", "--json")
	require.NoError(t, err)
	assert.Contains(t, text, `"drain":["operator"]`)
	text, err = warmpath(t, "", "undrain", url, "--router", strings.TrimPrefix(base, "http://"))
	require.NoError(t, err)
	assert.Equal(t, url+" is up\n", text)
	assert.Equal(t, "ready", stateAt(cl.router, url))

	for _, act := range []string{"drain", "undrain", "cordon", "uncordon", "remove"} {
		_, err = warmpath(t, "", act, "http://127.0.0.1:1")
		require.ErrorContains(t, err, "with 404: cannot ", act)
		require.ErrorContains(t, err, "worker http://127.0.0.1:1: there is no such worker", act)
		_, err = warmpath(t, "", act)
		require.ErrorContains(t, err, "nothing to "+act+": name ")
		_, err = warmpath(t, "", act, "a", "b")
		require.ErrorContains(t, err, "cannot "+act+" 2 targets: name one, ")
		if act != "remove" {
			_, err = warmpath(t, "", act, "gpu-3")
			require.ErrorContains(t, err, "cannot find node gpu-3: there is no such node: this router is in no cluster", act)
		}
	}
	text, err = warmpath(t, "", "cordon", url+"/")
	require.NoError(t, err)
	assert.Equal(t, url+" is cordoned\n", text)
	assert.Equal(t, "ready", stateAt(cl.router, url), "who is in use serves on")
	st := cl.router.Status()
	assert.True(t, st.Workers[0].Cordoned)
	require.Len(t, st.Marks, 1)
	assert.Equal(t, url, st.Marks[0].Target)
	text, err = warmpath(t, "", "uncordon", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	assert.Equal(t, url+" is no longer cordoned\n", text)
	assert.Empty(t, cl.router.Status().Marks)
	text, err = warmpath(t, "", "remove", url)
	require.NoError(t, err)
	assert.Equal(t, url+" is removed\nflags still names it: take it out there, or it comes back when the router restarts\n", text)
	testkit.AwaitThat(t, func() bool { return stateAt(cl.router, url) == "" }, func() string { return "it is still there" })
	_, err = warmpath(t, "", "workers", "--router", "127.0.0.1:1")
	require.ErrorContains(t, err, "cannot ask the router at http://127.0.0.1:1")
	require.ErrorContains(t, err, "WARMPATH_ROUTER")
}

func TestSimFault(t *testing.T) {
	w := startSimulated(t, sim.Config{})
	out, err := warmpath(t, "", "sim", "fault", "error", w.URL()+"/", "--status", "418")
	require.NoError(t, err)
	assert.Equal(t, w.URL()+"/: error\n", out)
	status, _, err := askHTTP(w.URL(), "/generate", "", []byte(`{"text":"a"}`), patience)
	require.NoError(t, err)
	assert.Equal(t, 418, status)
	_, err = warmpath(t, "", "sim", "fault", "crsh", w.URL())
	require.ErrorContains(t, err, "known are crash, restart")
	_, err = warmpath(t, "", "sim", "fault", "crash")
	require.ErrorContains(t, err, "want a kind of fault and a worker's URL")
	_, err = warmpath(t, "", "sim", "fault", "crash", "http://127.0.0.1:1")
	require.ErrorContains(t, err, "cannot reach the worker")
}

// TestTopOnNoTerminal: scripts get one plain picture of a real router.
func TestTopOnNoTerminal(t *testing.T) {
	cl, base := startCluster(t, 2, sim.Config{}, "kv")
	generate(t, cl, prompt(800, 1), "")
	t.Setenv(routerEnv, base)
	text, err := warmpath(t, "", "top")
	require.NoError(t, err)
	assert.Contains(t, text, "2 of 2 workers ready")
	for _, w := range cl.sims {
		assert.Regexp(t, w.URL()[len("http://"):]+` +ready +\d+s `, text)
	}
	assert.NotContains(t, text, "\x1b")

	_, err = warmpath(t, "", "top", "--router", "127.0.0.1:1")
	require.ErrorContains(t, err, "cannot ask the router at http://127.0.0.1:1")
	for _, bad := range []string{"0s", "-1s", "1ms", "9999h"} {
		_, err = warmpath(t, "", "top", "--interval="+bad)
		require.ErrorContains(t, err, "cannot use --interval ", bad)
		require.ErrorContains(t, err, ": want ", bad)
	}
}

// TestTextOfOthers: what workers say of themselves cannot move the cursor of an operator's terminal,
// nor set its title, nor turn its text around.
func TestTextOfOthers(t *testing.T) {
	const evil = "tiny\x1b[2J\x1b]0;x\x07\r\u009b1A\u202e"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one := admin.WorkerStatus{Events: &admin.EventsStatus{}, GPUs: &admin.GPUHealthStatus{}}
		one.ID, one.State, one.Model, one.Error, one.Drain = "http://w:80", "ready", evil, evil, []string{evil}
		switch r.URL.Path {
		case "/workers":
			_ = json.NewEncoder(w).Encode(map[string]any{"workers": []admin.WorkerStatus{one}})
		case "/explain":
			_ = json.NewEncoder(w).Encode(admin.Explained{Error: evil})
		case "/workers/drain":
			_ = json.NewEncoder(w).Encode(map[string]any{"scope": "router", "reason": evil})
		case "/status":
			one.Concerns = []admin.Concern{{Subject: evil, Text: evil, Advice: evil}}
			_ = json.NewEncoder(w).Encode(admin.Status{Workers: []admin.WorkerStatus{one}})
		}
	}))
	defer s.Close()
	for _, args := range [][]string{{"workers"}, {"explain", "--text", "x"}, {"drain", "http://w:80"}, {"doctor"}} {
		root := newRoot()
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs(append(args, "--router", s.URL))
		if err := root.Execute(); err != nil && args[0] != "doctor" {
			t.Fatalf("%q: %v", args, err)
		}
		if text := out.String(); !strings.Contains(text, "]0;x") || strings.ContainsFunc(text, func(r rune) bool {
			return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf))
		}) {
			t.Errorf("%q writes %q", args, text)
		}
	}
}
