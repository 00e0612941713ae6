package tokens_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/modelfile"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// fakeHub fails with each of the errors, and then gives the folder.
type fakeHub struct {
	delays chan error
	found  chan string
	mu     sync.Mutex
	asked  []string
}

func newFakeHub() *fakeHub { return &fakeHub{delays: make(chan error), found: make(chan string)} }

// Folder implements tokens.Hub.
func (h *fakeHub) Folder(ctx context.Context, name modelfile.HubName, failed func(error)) (string, error) {
	h.mu.Lock()
	h.asked = append(h.asked, name.String())
	h.mu.Unlock()
	for {
		select {
		case err := <-h.delays:
			failed(err)
		case folder := <-h.found:
			return folder, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// TestModelOfTheHub: workers without files here tokenize until it is there, whenever they came, and
// the reason is told.
func TestModelOfTheHub(t *testing.T) {
	t.Chdir(t.TempDir())
	h := newFakeHub()
	s := newTestModelsOf(t, map[string]string{"m": "some/model@v1", "n": "some/model@v1", "other": modelFolder(t, template)}, h)
	settings := tokens.Settings{Version: "0.5.23", Model: filepath.Join(t.TempDir(), "elsewhere")}
	s.models.WorkerUp("before", "m", settings)
	s.reads(t, "looked for at the hub")
	unreachable := errors.New("no route to the hub")
	for range 3 {
		h.delays <- unreachable
	}
	s.reads(t, unreachable.Error())
	s.models.WorkerUp("later", "m", settings)
	s.reads(t, unreachable.Error())
	s.models.WorkerUp("third", "other", settings)
	testkit.Await(t, "a model in a folder waits for no hub", func() bool { return s.models.Find("other") != nil })

	h.found <- modelFolder(t, template)
	s.loaded(t)
	require.Empty(t, s.models.Status()[0].Reason)
	s.models.WorkerUp("last", "n", settings)
	testkit.Await(t, "two names share it", func() bool { return s.models.Find("n") != nil })
	require.Equal(t, []string{"some/model@v1"}, h.asked)
	require.Equal(t, 1, s.logs.count("cannot be had now"), "said once")
}

// TestWorkersFilesUntilTheHubHas: a router without a way to the hub tokenizes as it would without a
// model of it.
func TestWorkersFilesUntilTheHubHas(t *testing.T) {
	t.Chdir(t.TempDir())
	h := newFakeHub()
	s := newTestModelsOf(t, map[string]string{"": "some/model"}, h)
	theirs, own := modelFolder(t, template+" "), modelFolder(t, template)
	for _, w := range []string{"v", "w"} {
		s.models.WorkerUp(w, "m", tokens.Settings{Version: "0.5.23", Model: theirs})
	}
	for _, port := range []string{"1", "23", "456"} {
		h.delays <- errors.New("lookup hub: read udp 10.0.0.5:" + port + "->10.0.0.1:53: i/o timeout")
	}
	s.loaded(t)
	require.Equal(t, theirs, s.models.Status()[0].Folder)
	h.found <- own
	testkit.Await(t, "the operator's model", func() bool { return s.models.Status()[0].Folder == own })
	require.Equal(t, 1, s.logs.count("cannot be had now"), "said once, whatever the port")
	require.Zero(t, s.logs.count(differ), "nor do workers differ while the operator's model is read")
}

// TestModelThatTheHubRefuses: the reason stays, and is logged once, until it is mended.
func TestModelThatTheHubRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	h := newFakeHub()
	s := newTestModelsOf(t, map[string]string{"": "some/model"}, h)
	s.models.WorkerUp("w", "m", tokens.Settings{Version: "0.5.23"})
	refusal := errors.New("accept its licence")
	h.delays <- refusal
	s.reads(t, refusal.Error())
	s.models.WorkerUp("x", "m", tokens.Settings{Version: "0.5.23"})
	h.delays <- refusal
	s.reads(t, refusal.Error())
	h.found <- modelFolder(t, template)
	s.loaded(t)
	require.Equal(t, 1, s.logs.count(refusal.Error()))
}

// TestNothingIsFetchedForWorkers: by whatever name they have, and none is where there is no hub.
func TestNothingIsFetchedForWorkers(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	h := newFakeHub()
	s := newTestModelsOf(t, map[string]string{"other": modelFolder(t, template)}, h)
	s.models.WorkerUp("w", "m", tokens.Settings{Version: "0.5.23", Model: "some/model", Tokenizer: "some/tokenizer"})
	s.reads(t, "its name at the hub, as --model-path")
	s.end()
	require.Empty(t, h.asked)

	s = newTestModels(t, map[string]string{"": "some/model"})
	s.models.WorkerUp("w", "m", tokens.Settings{Version: "0.5.23"})
	s.reads(t, "no such file")
}
