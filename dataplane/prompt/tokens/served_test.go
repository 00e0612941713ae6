package tokens_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
)

// reads waits until the files of all workers are read: the model is used, or the reason says why
// not.
func (s *testModels) reads(t *testing.T, reason string) {
	t.Helper()
	require.Eventually(t, func() bool {
		return strings.Contains(s.models.Status()[0].Reason, reason) && (reason != "" || s.models.Find("m") != nil)
	}, 5*time.Minute, time.Millisecond, "reason %q", reason)
	require.Equal(t, reason == "", s.models.Find("m") != nil)
}

const differ = "different ways"

// TestWorkersThatDiffer: one name, two ways to make tokens, until one of the workers has gone.
func TestWorkersThatDiffer(t *testing.T) {
	s := newTestModels(t, map[string]string{"m": modelFolder(t, template)})
	s.models.WorkerUp("a", "m", tokens.Settings{Version: "0.5.22"})
	m := s.loaded(t)
	s.models.WorkerUp("b", "m", tokens.Settings{Version: "0.5.23"})
	require.Same(t, m, s.models.Find("m"), "releases render alike")
	s.models.WorkerUp("c", "m", tokens.Settings{Version: "0.5.23", DefaultKwargs: `{"a":1}`})
	require.Nil(t, s.models.Find("m"))
	s.reads(t, differ)
	require.Nil(t, s.models.Find("other"))
	require.Nil(t, (*tokens.Models)(nil).Find("m"))
	s.models.WorkerDown("c")
	s.reads(t, "")
	require.Same(t, m, s.models.Find("m"), "its proofs go on")
	require.Equal(t, 1, s.logs.count("in different ways"))
	require.Equal(t, 1, s.logs.count("in one way again"))
}

// TestWorkersAreAlikeByContent: copies of a model in other folders are the same model.
func TestWorkersAreAlikeByContent(t *testing.T) {
	s := newTestModels(t, nil)
	at := func(dir string) tokens.Settings { return tokens.Settings{Version: "0.5.23", Model: dir} }
	one, two, other := modelFolder(t, template), modelFolder(t, template), modelFolder(t, template+" ")
	s.models.WorkerUp("a", "m", at(one))
	m := s.loaded(t)
	s.models.WorkerUp("b", "m", at(two))
	s.reads(t, "")
	require.Same(t, m, s.models.Find("m"), "it is loaded once")

	// Both are replaced by a newer model, one after the other.
	s.models.WorkerUp("a", "m", at(other))
	s.reads(t, differ)
	newer := modelFolder(t, template+" ")
	s.models.WorkerDown("b")
	s.models.WorkerUp("b", "m", at(newer))
	s.reads(t, "")
	require.NotSame(t, m, s.models.Find("m"), "the newer one is proved by itself")

	// And all die at once, and come back as they were at first.
	s.models.WorkerDown("a")
	s.models.WorkerDown("b")
	require.NotNil(t, s.models.Find("m"), "it stays for those that come")
	s.models.WorkerUp("a", "m", at(one))
	s.models.WorkerUp("b", "m", at(two))
	s.reads(t, "")
}

// TestNamesWithoutWorkersAreBounded: a worker that comes under ever new names leaves a bounded number
// of models behind, the latest ones.
func TestNamesWithoutWorkersAreBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	models := tokens.NewModels(tokens.ModelsConfig{Now: func() time.Time { return now }})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, models.Run(ctx)) // no files are read
	models.WorkerUp("stays", "served", tokens.Settings{})
	for i := range 100 {
		now = now.Add(time.Second)
		models.WorkerUp("renamed", fmt.Sprintf("m%02d", i), tokens.Settings{})
	}
	var names []string
	for _, m := range models.Status() {
		names = append(names, m.Model)
	}
	require.Len(t, names, 18, "those left, that of the worker now, and another's")
	require.Equal(t, []string{"m83", "m99", "served"}, []string{names[0], names[16], names[17]})
}

// TestFilesThatChange: a worker that restarts is read again, running ones are not.
func TestFilesThatChange(t *testing.T) {
	s := newTestModels(t, nil)
	dir := modelFolder(t, template)
	settings := tokens.Settings{Version: "0.5.23", Model: dir}
	s.models.WorkerUp("a", "m", settings)
	s.models.WorkerUp("b", "m", settings)
	m := s.loaded(t)
	changed, err := os.ReadFile(filepath.Join(modelFolder(t, "{{ 1 }}"+template), "tokenizer_config.json"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.models.Find("m") == m }, 5*time.Minute, time.Millisecond)
	s.models.WorkerUp("b", "m", settings)
	s.reads(t, "")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), changed, 0o600))
	s.models.WorkerUp("b", "m", settings)
	require.Eventually(t, func() bool { return strings.Contains(s.models.Status()[0].Reason, differ) }, 5*time.Minute, time.Millisecond)
	s.models.WorkerUp("a", "m", settings)
	require.Eventually(t, func() bool { now := s.models.Find("m"); return now != nil && now != m }, 5*time.Minute, time.Millisecond)
}

// TestFoldersThatAreElsewhere: of files on other machines only the path is known.
func TestFoldersThatAreElsewhere(t *testing.T) {
	s := newTestModels(t, nil)
	s.models.WorkerUp("a", "m", tokens.Settings{Version: "0.5.23", Model: "/on/another/machine"})
	s.reads(t, "--model-path")
	s.models.WorkerUp("b", "m", tokens.Settings{Version: "0.5.23", Model: "/on/a/third"})
	s.reads(t, differ)
	s.models.WorkerUp("a", "m", tokens.Settings{Version: "0.5.23", Model: "/on/a/third"})
	s.reads(t, "--model-path")
}

// TestWorkersOfTwoModels: a worker that serves another model says nothing of the one it had.
func TestWorkersOfTwoModels(t *testing.T) {
	s := newTestModels(t, nil)
	one, two := modelFolder(t, template), modelFolder(t, template+" ")
	s.models.WorkerUp("a", "m", tokens.Settings{Version: "0.5.23", Model: one})
	s.models.WorkerUp("b", "m", tokens.Settings{Version: "0.5.23", Model: two})
	s.reads(t, differ)
	s.models.WorkerUp("b", "n", tokens.Settings{Version: "0.5.23", Model: two})
	s.reads(t, "")
	require.Eventually(t, func() bool { return s.models.Find("n") != nil }, 5*time.Minute, time.Millisecond)
}
