package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
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

// restartFleet is simulated workers that outlive routers.
type restartFleet struct {
	t    *testing.T
	sims []*sim.Worker
	file string // the routers' snapshot
}

// startFleet runs workers until the test ends. They keep the last 4 batches of events for replay, or so many: most of what
// they tell cannot be asked for again.
func startFleet(t *testing.T, n int, kept ...int) *restartFleet {
	t.Helper()
	f := &restartFleet{t: t, file: filepath.Join(t.TempDir(), "index.snapshot")}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	for range n {
		f.sims = append(f.sims, startSimulated(t, sim.Config{Log: slog.New(slog.DiscardHandler), TimeScale: 50, EventConfig: sim.EventConfig{BufferSteps: slices.Concat(kept, []int{4})[0]}}))
	}
	return f
}

// route runs a router over the restartFleet while use runs, which begins when n workers are live.
func (f *restartFleet) route(n int, use func(cl *simulation, base string)) {
	f.t.Helper()
	cfg := router.Config{
		Listen: "127.0.0.1:0", Policy: config.Policy{Name: "kv"}, Log: slog.New(slog.DiscardHandler), Snapshot: config.Snapshot{File: f.file, Interval: time.Hour},
	}
	unhurried(&cfg)
	for _, w := range f.sims {
		cfg.Sources.Workers = append(cfg.Sources.Workers, w.URL())
	}
	d, err := router.New(cfg)
	require.NoError(f.t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	defer func() {
		stop()
		require.NoError(f.t, <-ended)
		http.DefaultClient.CloseIdleConnections()
	}()
	cl := &simulation{router: d, sims: f.sims}
	awaitCluster(f.t, cl, n)
	use(cl, "http://"+d.Addr())
}

// resume is route from the snapshot, with a router that has kept what it says of each process that goes on. A replay for which
// this machine lets the router wait for too long costs a worker's blocks: then another router begins with the same snapshot.
func (f *restartFleet) resume(use func(cl *simulation, base string)) {
	f.t.Helper()
	snapshot, err := os.ReadFile(f.file)
	require.NoError(f.t, err)
	var last []admin.WorkerStatus
	testkit.AwaitThat(f.t, func() (kept bool) {
		require.NoError(f.t, os.WriteFile(f.file, snapshot, 0o600))
		f.route(len(f.sims), func(cl *simulation, base string) {
			settle(f.t, cl)
			resyncs, restarts := learnt(cl.router.Status().Workers)
			if kept = resyncs == restarts; kept {
				use(cl, base)
			}
			last = cl.router.Status().Workers
		})
		return kept
	}, func() string { return fmt.Sprintf("no router keeps the snapshot: %+v", last) })
}

// learnt is how often ranks were learnt anew, and how often other processes were found to publish.
func learnt(all []admin.WorkerStatus) (resyncs, restarts uint64) {
	for i := range all {
		resyncs += all[i].Events.Resyncs
		restarts += all[i].Events.Restarts
	}
	return resyncs, restarts
}

// warm has each of several prompts answered once, through a router, and returns who answered: every worker one at least, since ties
// are drawn, and a worker that has told nothing is learnt anew by every router. A router that had to learn a worker anew has not all
// blocks: then another one begins with empty workers.
func (f *restartFleet) warm(prompts int) (homes []string) {
	f.t.Helper()
	var last []admin.WorkerStatus
	testkit.AwaitThat(f.t, func() (whole bool) {
		f.route(len(f.sims), func(cl *simulation, base string) {
			before, _ := learnt(cl.router.Status().Workers)
			used := map[string]bool{}
			for i := 0; i < prompts || len(used) < len(f.sims); i++ {
				homes = append(homes, generate(f.t, cl, prompt(300, i), "").worker)
				used[homes[i]] = true
			}
			settle(f.t, cl) // the last answer's pages are told of after it
			last = cl.router.Status().Workers
			after, _ := learnt(last)
			whole = after == before
		})
		if !whole {
			homes = nil
			for _, w := range f.sims {
				post(f.t, w.URL()+"/flush_cache", "")
			}
			require.NoError(f.t, os.Remove(f.file))
		}
		return whole
	}, func() string { return fmt.Sprintf("each router learns a worker anew: %+v", last) })
	return homes
}

// wantExact asks for the prompts again: each goes where it was answered, and what is expected there is what is there.
func (f *restartFleet) wantExact(cl *simulation, homes []string) {
	f.t.Helper()
	for i, home := range homes {
		settle(f.t, cl) // a worker that seems busy with the last prompt may not get the next
		r := generate(f.t, cl, prompt(300, i), "")
		assert.Equal(f.t, home, r.worker, "prompt %d", i)
		assert.Equal(f.t, r.cached, r.matched*page, "prompt %d", i)
		assert.Equal(f.t, 288, r.cached, "prompt %d", i)
	}
}

func TestRestartedRouterRoutesWellAtOnce(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3)
	homes := f.warm(12)
	info, err := os.Stat(f.file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode(), "the file has the seed of the hashes")
	f.resume(func(cl *simulation, base string) {
		f.wantExact(cl, homes)
		const each = 21 // blocks of a prompt with its answer
		assert.Contains(t, metrics(t, base), fmt.Sprintf("warmpath_snapshot_restored_blocks %d\n", each*len(homes)))
		for _, w := range cl.router.Status().Workers {
			assert.Zero(t, w.Events.Malformed+w.Events.UnknownParents+w.Events.UnknownRemovals+w.Events.Restarts+w.Events.Gaps, w.ID)
		}
	})
	// The engines' buffers alone know a few of the prompts at most.
	require.NoError(t, os.Remove(f.file))
	f.route(3, func(cl *simulation, _ string) {
		known := 0
		for i := range homes {
			if r := generate(t, cl, prompt(300, i), ""); r.matched > 0 && r.worker == homes[i] {
				known++
			}
		}
		assert.Less(t, known, len(homes), "the snapshot made the difference")
	})
}

func metrics(t *testing.T, base string) string {
	t.Helper()
	resp, err := http.Get(base + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}

func TestSnapshotNeedsItsFolder(t *testing.T) {
	for _, file := range []string{filepath.Join(t.TempDir(), "no", "such"), t.TempDir()} {
		_, err := router.New(router.Config{Listen: "127.0.0.1:0", Snapshot: config.Snapshot{File: file}, Log: slog.New(slog.DiscardHandler)})
		require.ErrorContains(t, err, "--snapshot")
	}
}

func post(t *testing.T, url, body string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, url)
}
