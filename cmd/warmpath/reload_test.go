package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// reloading is a router that follows its configuration file, with simulated workers that nobody has told it of.
type reloading struct {
	*reloader
	path    string
	base    string
	client  *http.Client
	workers []*sim.Worker
}

// startReloading runs it until the test ends. text is the first configuration, without what the test itself needs.
func startReloading(t *testing.T, workers int, text func(urls []string) string) *reloading {
	t.Helper()
	leaveNothing(t)
	r := &reloading{path: filepath.Join(t.TempDir(), "warmpath.yaml")}
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	for range workers {
		w, err := sim.New(sim.Config{Model: "m", TimeScale: 100, Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		r.workers = append(r.workers, w)
		running.Go(func() { _ = w.Run(ctx) })
	}
	r.write(t, text(r.urls()))
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(serveOptions).flags(f)
	require.NoError(t, f.Parse([]string{"--config", r.path}))
	o, err := again(f)
	require.NoError(t, err)
	o.cfg.Log = slog.New(slog.DiscardHandler)
	d, err := router.New(o.cfg)
	require.NoError(t, err)
	r.reloader = &reloader{given: f, router: d, level: new(slog.LevelVar)}
	r.base, r.client = "http://"+d.Addr(), &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	known, err := os.ReadFile(r.path)
	require.NoError(t, err)
	routing, stopRouting := context.WithCancel(context.Background())
	var router sync.WaitGroup
	router.Go(func() { _ = d.Run(routing) })
	router.Go(func() { _ = r.watch(routing, r.path, known) })
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		stopRouting()
		router.Wait()
		stop()
		running.Wait()
	})
	return r
}

func (r *reloading) urls() (urls []string) {
	for _, w := range r.workers {
		urls = append(urls, w.URL())
	}
	return urls
}

func (r *reloading) write(t *testing.T, text string) {
	t.Helper()
	replace(t, r.path, "listen: 127.0.0.1:0\nprobe-interval: 20ms\nprobe-timeout: 2m\nhang-after: 2m\n"+text)
}

// replace gives a file another content at one instant: who reads it meanwhile never finds the half of it.
func replace(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

// until waits until the router's state is as ok wants it.
func (r *reloading) until(t *testing.T, ok func(st *admin.Status) bool) {
	t.Helper()
	testkit.AwaitThat(t, func() bool { st := r.router.Status(); return ok(&st) }, func() string {
		text, _ := json.Marshal(r.router.Status())
		return string(text)
	})
}

// uses waits until just these workers are ready and nobody else is there.
func (r *reloading) uses(t *testing.T, urls ...string) {
	t.Helper()
	r.until(t, func(st *admin.Status) bool {
		for _, w := range st.Workers {
			if w.State != "ready" || !strings.Contains(strings.Join(urls, " ")+" ", w.URL+" ") {
				return false
			}
		}
		return len(st.Workers) == len(urls)
	})
}

// ask sends one request and returns what is wrong with its answer.
func (r *reloading) ask(rng *rand.Rand) error {
	stream := rng.IntN(2) == 0
	body := fmt.Sprintf(`{"model":"m","prompt":"%d of some words","max_tokens":%d,"stream":%t}`, rng.IntN(50), 1+rng.IntN(20), stream)
	resp, err := r.client.Post(r.base+"/v1/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d: %s", resp.StatusCode, answer)
	}
	_, err = spoken(answer, stream)
	return err
}

// operate asks the operator's API.
func (r *reloading) operate(t *testing.T, method, path, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.base+path, strings.NewReader(body))
	require.NoError(t, err)
	resp, err := r.client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func list(urls []string) string { return "[" + strings.Join(urls, ", ") + "]\n" }

// TestReloadLosesNothing changes everything that can change, again and again, while requests are served: workers by the configuration,
// by a file and by operators, policies, limits, and configurations that are wrong.
func TestReloadLosesNothing(t *testing.T) {
	found := filepath.Join(t.TempDir(), "workers")
	require.NoError(t, os.WriteFile(found, []byte("[]"), 0o600))
	r := startReloading(t, 5, func(urls []string) string { return "worker: " + list(urls[:2]) + "discover: file:" + found })
	urls := r.urls()
	r.uses(t, urls[:2]...)

	var done, failed atomic.Int64
	var stop atomic.Bool
	var clients sync.WaitGroup
	for i := range 12 {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for !stop.Load() {
				if err := r.ask(rng); err != nil {
					failed.Add(1)
					t.Errorf("a request was lost: %v", err)
				}
				done.Add(1)
			}
		})
	}
	rng := rand.New(rand.NewPCG(2, 3))
	for step := range reloads {
		order := rng.Perm(len(urls))
		named := []string{urls[order[0]]}
		switch step % 6 {
		case 0: // another set by the configuration
			r.write(t, "worker: "+list(named)+"discover: file:"+found+"\npolicy: lmetric\nretries: 5")
			r.reload()
		case 1: // by the file; the configuration comes back to it by its own watch
			replace(t, found, urls[order[0]]+"\n"+urls[order[1]])
			r.write(t, "worker: "+list(named)+"discover: file:"+found+"\npolicy: kv")
		case 2:
			r.write(t, "worker: ["+urls[order[0]]+"\n")
			r.reload()
		case 3:
			require.Contains(t, []int{http.StatusOK, http.StatusConflict}, r.operate(t, http.MethodPost, "/workers", `{"url":"`+named[0]+`"}`))
		case 4:
			require.Contains(t, []int{http.StatusOK, http.StatusNotFound}, r.operate(t, http.MethodDelete, "/workers?url="+named[0], ""))
			r.operate(t, http.MethodPost, "/workers", `{"url":"`+urls[order[1]]+`"}`)
		case 5:
			replace(t, found, "[]")
			r.write(t, "worker: "+list([]string{urls[order[0]], urls[order[1]]})+"discover: file:"+found+"\npair-timeout: 1s\nmax-body-bytes: 1000000")
			r.reload()
		}
		for from := done.Load(); done.Load() < from+reloadAnswers && !t.Failed(); {
			time.Sleep(2 * time.Millisecond)
		}
	}
	stop.Store(true)
	clients.Wait()
	require.Zero(t, failed.Load(), "of %d requests", done.Load())
	t.Logf("%d requests, %d reloads", done.Load(), r.router.Status().Config.Reloads)
	r.until(t, func(st *admin.Status) bool { return st.InFlight == 0 })
}

func TestReload(t *testing.T) {
	r := startReloading(t, 3, func(urls []string) string { return "worker: " + list(urls[:1]) })
	urls := r.urls()
	r.uses(t, urls[0])
	t.Setenv("WARMPATH_LOG_LEVEL", "debug")
	r.write(t, "worker: "+list(urls[1:])+"policy: round-robin\nqueue-max: 5\noperator-key: sesame")
	r.uses(t, urls[1:]...) // without a signal
	r.until(t, func(st *admin.Status) bool {
		return st.Policy == "round-robin" && st.Config.Reloads == 1 && r.level.Level() == slog.LevelDebug
	})
	st := r.router.Status()
	require.Equal(t, []string{"queue-max"}, st.Config.Restart)
	require.Equal(t, r.path, st.Config.File)
	require.Equal(t, http.StatusUnauthorized, r.operate(t, http.MethodGet, "/workers", ""), "the new key counts")

	r.write(t, "worker: "+list(urls)+"polcy: kv")
	r.until(t, func(st *admin.Status) bool { return st.Config.Failed == 1 })
	st = r.router.Status()
	require.Contains(t, st.Config.Error, `line 6: there is no setting "polcy": is policy meant?`)
	require.Len(t, st.Workers, 2, "a file that is wrong changes nothing")
	for _, wrong := range []string{"policy: best", "worker: [x]", "worker: " + list([]string{urls[0], urls[0]}), "discover: x", "tokenize: never", ""} {
		failed := r.router.Status().Config.Failed
		replace(t, r.path, wrong)
		r.until(t, func(st *admin.Status) bool { return st.Config.Failed > failed })
		require.Equal(t, "round-robin", r.router.Status().Policy, wrong)
	}
	r.write(t, "worker: "+list(urls[1:])+"policy: kv")
	r.until(t, func(st *admin.Status) bool {
		return st.Config.Error == "" && st.Policy == "kv" && len(st.Config.Restart) == 0
	})
	require.Equal(t, http.StatusOK, r.operate(t, http.MethodGet, "/workers", ""), "no key is needed any more")
	require.NoError(t, os.Remove(r.path))
	r.until(t, func(st *admin.Status) bool { return strings.Contains(st.Config.Error, "no such file") })
	r.uses(t, urls[1:]...)
}

// TestDeleteIsGraceful removes the worker that is just answering: the answer comes whole, nothing new goes there, and then it is gone.
func TestDeleteIsGraceful(t *testing.T) {
	r := startReloading(t, 2, func(urls []string) string { return "worker: " + list(urls[:1]) })
	urls := r.urls()
	r.uses(t, urls[0])
	r.workers[0].Faults().Hang() // the answer does not end before it may
	answered := make(chan error, 1)
	go func() {
		resp, err := r.client.Post(r.base+"/v1/completions", "application/json", strings.NewReader(`{"model":"m","prompt":"a","max_tokens":200,"stream":true}`))
		if err == nil {
			var body []byte
			body, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err == nil {
				_, err = spoken(body, true)
			}
		}
		answered <- err
	}()
	r.until(t, func(st *admin.Status) bool { return len(st.Workers) == 1 && st.Workers[0].InFlight == 1 })
	require.Equal(t, http.StatusBadRequest, r.operate(t, http.MethodDelete, "/workers?now=soon&url="+urls[0], ""))
	require.Equal(t, http.StatusOK, r.operate(t, http.MethodDelete, "/workers?url="+urls[0], ""))
	r.until(t, func(st *admin.Status) bool {
		return len(st.Workers) == 1 && st.Workers[0].State == "draining" && fmt.Sprint(st.Workers[0].Drain) == "[leaving]"
	})
	require.Error(t, r.ask(rand.New(rand.NewPCG(1, 1))), "nobody else is there")
	r.workers[0].Faults().Unhang()
	require.NoError(t, <-answered)
	r.uses(t)
	r.write(t, "worker: "+list(urls)) // which names it again, and yet it was an operator who removed it
	r.uses(t, urls[1])
	require.Equal(t, http.StatusOK, r.operate(t, http.MethodPost, "/workers", `{"url":"`+urls[0]+`"}`))
	r.uses(t, urls...)
	require.Equal(t, http.StatusOK, r.operate(t, http.MethodDelete, "/workers?now=true&url="+urls[0], ""))
	r.uses(t, urls[1])
}
