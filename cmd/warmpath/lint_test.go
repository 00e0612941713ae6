package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// lintFile writes chats with the time in the system prompt: 7 % of the tokens before it, 67 % stable ones behind it.
func lintFile(t *testing.T) string {
	t.Helper()
	text := func(seed uint64, tokens int) string {
		rng, b := rand.New(rand.NewPCG(seed, 1)), strings.Builder{}
		for b.Len() < 4*tokens {
			fmt.Fprintf(&b, "%c%c%c ", 'a'+rng.IntN(26), 'a'+rng.IntN(26), 'a'+rng.IntN(26))
		}
		return b.String()
	}
	var file bytes.Buffer
	for i := range 40 {
		fmt.Fprintf(&file, `{"model":"m","messages":[{"role":"system","content":"%s2026-11-21 10:%02d:%02d %s"},{"role":"user","content":"%s"}]}`+"\n",
			text(1, 70), i, (7*i)%60, text(2, 670), text(uint64(i)+10, 255))
	}
	name := filepath.Join(t.TempDir(), "prompts.jsonl")
	require.NoError(t, os.WriteFile(name, file.Bytes(), 0o600))
	return name
}

func runLint(args ...string) (string, error) {
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(append([]string{"lint"}, args...))
	err := root.Execute()
	return out.String(), err
}

func TestLintFile(t *testing.T) {
	name := lintFile(t)
	out, err := runLint(name)
	require.NoError(t, err)
	for _, want := range []string{"40 prompts of 1000 tokens for m: 7 % -> 74 %", "first change: system", "(time)", "Put the time at the end", "2026-11-21 10: «"} {
		require.Contains(t, out, want)
	}
	_, err = runLint("--fail-above", "0.5", name)
	require.ErrorIs(t, err, errLint)
	out, err = runLint("--json", "--prompts", "20", name)
	require.NoError(t, err)
	require.Contains(t, out, "20 of 40 prompts are compared")
	require.Contains(t, out, `"kind": "time"`)
	_, err = runLint(filepath.Join(t.TempDir(), "none"))
	require.Error(t, err)
}

func TestRouterSamplesPrompts(t *testing.T) {
	_, base, client := startQueued(t, 1, sim.Config{}, router.Config{Logs: config.Logs{LintSample: 1}})
	rng := rand.New(rand.NewPCG(1, 1))
	for range 3 {
		require.Equal(t, http.StatusOK, ask(t.Context(), client, base, randomIDs(rng, 32), 1).status)
	}
	testkit.AwaitThat(t, func() bool { return metric(t, base, "warmpath_lint_sampled_total") == 3 }, func() string { return "not all prompts are sampled" })
}
