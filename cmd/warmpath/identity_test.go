package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/fleet"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// chatFor sends a short chat for a model and returns the status and the worker.
func chatFor(ctx context.Context, client *http.Client, base, model string, n int) (status int, worker string, err error) {
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"number %d"}],"max_tokens":2}`, model, n)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Header.Get("X-Warmpath-Worker"), err
}

// modelsOf returns the names in GET /v1/models.
func modelsOf(t *testing.T, base string) (names []string) {
	t.Helper()
	resp, err := http.Get(base + "/v1/models")
	require.NoError(t, err)
	defer resp.Body.Close()
	var answer struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
	for _, m := range answer.Data {
		names = append(names, m.ID)
	}
	return names
}

// postTo posts JSON and wants 200.
func postTo(t *testing.T, url, body string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", text)
}

// TestNamesAfterNewWeights: workers that have loaded other weights name them by their path, and take the served name as before.
func TestNamesAfterNewWeights(t *testing.T) {
	cl, base := startCluster(t, 2, sim.Config{}, "round-robin")
	for _, w := range cl.sims {
		postTo(t, w.URL()+"/update_weights_from_disk", `{"model_path":"/checkpoints/2"}`)
	}
	takers := func(model string, n int) (seen map[string]bool, refused int) {
		t.Helper()
		seen = map[string]bool{}
		for i := range n {
			status, worker, err := chatFor(t.Context(), http.DefaultClient, base, model, i)
			require.NoError(t, err)
			if seen[worker] = true; status != http.StatusOK {
				refused++
			}
		}
		return seen, refused
	}
	testkit.AwaitThat(t, func() bool {
		seen, refused := takers("/checkpoints/2", 2)
		return refused == 0 && len(seen) == 2
	}, func() string { return "the new name is not known of both" })
	require.Contains(t, modelsOf(t, base), "/checkpoints/2")
	for _, model := range []string{"simulated", "/checkpoints/2"} {
		seen, refused := takers(model, 4)
		require.Zero(t, refused, "requests for %s", model)
		require.Len(t, seen, 2, "workers that take requests for %s", model)
	}
	// A router that begins after that knows both names, and one that has lost sight of a worker still does.
	status, _, err := chatFor(t.Context(), http.DefaultClient, base, "no such model", 1)
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, status)
}

// switchboard is an address behind which one server takes another one's place: what a fast redeploy looks like.
type switchboard struct {
	l       net.Listener
	mu      sync.Mutex
	backend string
	open    []net.Conn
}

func newSwitchboard(t *testing.T, backend string) *switchboard {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &switchboard{l: l, backend: strings.TrimPrefix(backend, "http://")}
	go s.serve()
	t.Cleanup(func() { _ = l.Close(); s.turn("") })
	return s
}

func (s *switchboard) url() string { return "http://" + s.l.Addr().String() }

func (s *switchboard) serve() {
	for {
		conn, err := s.l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		out, err := net.Dial("tcp", s.backend)
		if err != nil {
			s.mu.Unlock()
			_ = conn.Close()
			continue
		}
		s.open = append(s.open, conn, out)
		s.mu.Unlock()
		for _, way := range [][2]net.Conn{{conn, out}, {out, conn}} {
			go func() {
				_, _ = io.Copy(way[0], way[1])
				_ = way[0].Close()
				_ = way[1].Close()
			}()
		}
	}
}

// turn ends all connections and lets new ones reach another server.
func (s *switchboard) turn(backend string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backend = strings.TrimPrefix(backend, "http://")
	for _, c := range s.open {
		_ = c.Close()
	}
	s.open = nil
}

// TestAnotherModelAtOneURL puts a process with another model in a worker's place under traffic, so fast that no probe could see the
// port closed: probes come once an hour here, and the port is always open.
func TestAnotherModelAtOneURL(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	cl := &simulation{}
	var urls []string
	require.NoError(t, cl.add(3, sim.Config{TimeScale: 50, Log: log}, "", &urls))
	require.NoError(t, cl.add(1, sim.Config{TimeScale: 50, Log: log, Model: "other"}, "", &urls))
	board := newSwitchboard(t, urls[0])
	cfg := router.Config{Listen: "127.0.0.1:0", Policy: config.Policy{Name: "round-robin"}, Sources: fleet.SourceConfig{Workers: []string{board.url(), urls[1], urls[2]}}, Log: log}
	unhurried(&cfg)
	cfg.Probes.Interval = time.Hour
	var err error
	cl.router, err = router.New(cfg)
	require.NoError(t, err)
	base := runCluster(t, cl, 3)

	crowd := &traffic{addr: strings.TrimPrefix(base, "http://"), request: func(n int64, stream bool) (path, body string) {
		return "/v1/chat/completions", fmt.Sprintf(`{"model":"simulated","messages":[{"role":"user","content":"number %d"}],"stream":%t,"max_tokens":2}`, n, stream)
	}}
	stop := crowd.start(8, 0)
	t.Cleanup(stop)
	crowd.more(t, 100)
	board.turn(urls[3])
	testkit.AwaitThat(t, func() bool { return modelAt(cl, board.url()) == "other" }, func() string { return "the other model is not known" })
	testkit.AwaitThat(t, func() bool { // requests may be on their way to it when it becomes known
		before := cl.sims[3].WrongModelRequests()
		crowd.more(t, 300)
		return cl.sims[3].WrongModelRequests() == before
	}, func() string { return "the other model gets requests although it is known" })
	stop()
	t.Logf("%d answers, %d failures, %d by a process of another model", crowd.answered.Load(), crowd.failures(), cl.sims[3].WrongModelRequests())
	require.Zero(t, crowd.failures(), crowd.first)

	status, worker, err := chatFor(t.Context(), http.DefaultClient, base, "other", 1)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, board.url(), worker)
}

func modelAt(cl *simulation, url string) string {
	all := cl.router.Status().Workers
	i := slices.IndexFunc(all, func(w admin.WorkerStatus) bool { return w.URL == url && w.State == "ready" })
	if i < 0 {
		return ""
	}
	return all[i].Model
}
