//go:build engines

package engines_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestIdentity: what an engine is called, and which engine it is, while weights and processes change under the router.
func TestIdentity(t *testing.T) {
	root := installation(t)
	dir := t.TempDir()
	k := newKeeper()
	binary := buildWarmpath(t, dir)
	dear := []string{"--model-path", filepath.Join(root, "dear"), "--served-model-name", "dear"}
	engines := []*engine{{index: 0}, {index: 1}, {index: 0, flags: dear}}
	launch(t, k, dir, engines)
	waitAll(t, engines)
	board := newSwitchboard(t, engines[0].url)
	front := &engine{index: 0, url: board.url()}
	r := startRouter(t, k, dir, binary, "round-robin", []*engine{front, engines[1]})

	t.Run("names", func(t *testing.T) { keepsNames(t, r, root, engines[1]) })
	t.Run("another model", func(t *testing.T) { findsAnotherModel(t, r, board, front, engines) })
	t.Run("redeployed", func(t *testing.T) {
		board.turn(engines[0].url)
		r.waitModels(t, func(names []string) bool { return !slices.Contains(names, "dear") })
		chats := startChats(t, r.url, "tiny")
		chats.more(t, 20)
		victim := engines[1]
		victim.proc.kill()
		victim.flags = dear
		victim.start(t, k, dir)
		victim.waitReady(t, 20*time.Millisecond)
		ready := time.Now()
		r.waitModels(t, func(names []string) bool { return slices.Contains(names, "dear") })
		chats.more(t, 20)
		chats.stop()
		wrong, failed := chats.after(ready, victim.url), 0
		for _, a := range chats.all {
			if a.err != nil {
				t.Logf("failed %v before it was ready, at %q: %v", ready.Sub(a.began), a.worker, a.err)
			}
			if a.err != nil && a.began.After(ready) { // others may have begun to answer when the engine was killed
				failed++
			}
		}
		t.Logf("redeployed: %d answers, %d failed afterwards, %d by the new model after it was ready", len(chats.all), failed, wrong)
		if wrong > 0 || failed > 0 {
			t.Errorf("%d requests went to another model and %d failed, want none", wrong, failed)
		}
	})
}

// keepsNames has an engine load other weights: it takes requests for the name that it was started with, and so must the router.
func keepsNames(t *testing.T, r *router, root string, e *engine) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "step-100")
	if err := os.CopyFS(copied, os.DirFS(filepath.Join(root, "tiny"))); err != nil {
		t.Fatal(err)
	}
	body, _ := json.Marshal(map[string]string{"model_path": copied})
	answer, err := http.Post(e.url+"/update_weights_from_disk", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(answer.Body)
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("cannot update the weights: %s", text)
	}
	names := r.waitModels(t, func(names []string) bool { return slices.Contains(names, copied) })
	if !slices.Contains(names, "tiny") {
		t.Errorf("the router names %v, want the served name too", names)
	}
	for _, model := range []string{copied, "tiny"} {
		seen := map[string]bool{}
		for i := range 8 {
			a := chat(t.Context(), r.url, model, i)
			if a.err != nil {
				t.Fatalf("a request for %s: %v", model, a.err)
			}
			seen[a.worker] = true
		}
		if !seen[e.url] {
			t.Errorf("no request for %s reached the engine with new weights, only %v", model, seen)
		}
	}
}

// findsAnotherModel puts an engine with another model in an engine's place, without a moment in which the port is closed.
func findsAnotherModel(t *testing.T, r *router, board *switchboard, front *engine, engines []*engine) {
	t.Helper()
	chats := startChats(t, r.url, "tiny")
	chats.more(t, 20)
	turned := time.Now()
	board.turn(engines[2].url)
	r.waitModels(t, func(names []string) bool { return slices.Contains(names, "dear") })
	known := time.Since(turned)
	chats.more(t, 40)
	chats.stop()
	wrong := chats.after(turned, front.url)
	t.Logf("another model at one URL: known after %v; %d answers, %d failed, %d by the other model", known, len(chats.all), chats.failed(), wrong)
	if wrong > 8 || chats.failed() > 0 { // each of four clients may have been on its way
		t.Errorf("%d requests went to another model and %d failed, want at most 8 and none", wrong, chats.failed())
	}
	if a := chat(t.Context(), r.url, "dear", 1); a.err != nil || a.worker != front.url {
		t.Errorf("a request for the other model: %q answers, %v", a.worker, a.err)
	}
}

// waitModels waits until the router's /v1/models is as wanted.
func (r *router) waitModels(t *testing.T, fits func([]string) bool) (names []string) {
	t.Helper()
	for began := time.Now(); time.Since(began) < patience; <-time.After(10 * time.Millisecond) {
		answer, err := http.Get(r.url + "/v1/models")
		if err != nil {
			t.Fatal(err)
		}
		var list struct {
			Data []struct {
				ID string `json:"id"`
			} `json:"data"`
		}
		err = json.NewDecoder(answer.Body).Decode(&list)
		answer.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		names = nil
		for _, m := range list.Data {
			names = append(names, m.ID)
		}
		if fits(names) {
			return names
		}
	}
	t.Fatalf("the router names %v", names)
	return nil
}

// chatted is an answer to a chat.
type chatted struct {
	began  time.Time
	worker string
	err    error
}

func chat(ctx context.Context, base, model string, n int) (a chatted) {
	a.began = time.Now()
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"number %d"}],"max_tokens":4}`, model, n)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		a.err = err
		return a
	}
	req.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		a.err = err
		return a
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if a.err = err; err == nil && answer.StatusCode != http.StatusOK {
		a.err = fmt.Errorf("status %d: %s", answer.StatusCode, text)
	}
	a.worker = answer.Header.Get("X-Warmpath-Worker")
	return a
}

// chats is traffic of four clients for one model.
type chats struct {
	mu   sync.Mutex
	all  []chatted
	stop func()
}

func startChats(t *testing.T, base, model string) *chats {
	t.Helper()
	c := &chats{}
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				a := chat(context.WithoutCancel(ctx), base, model, i*1_000_000+n)
				c.mu.Lock()
				c.all = append(c.all, a)
				c.mu.Unlock()
			}
		})
	}
	c.stop = sync.OnceFunc(func() { cancel(); clients.Wait() })
	t.Cleanup(c.stop)
	return c
}

// more waits for n more answers.
func (c *chats) more(t *testing.T, n int) {
	t.Helper()
	count := func() int { c.mu.Lock(); defer c.mu.Unlock(); return len(c.all) }
	for want, began := count()+n, time.Now(); count() < want; <-time.After(10 * time.Millisecond) {
		if time.Since(began) > answersIn {
			t.Fatalf("%d answers are missing after %v", want-count(), answersIn)
		}
	}
}

// after counts the answers of a worker to requests that were sent after a moment.
func (c *chats) after(at time.Time, worker string) (n int) {
	for _, a := range c.all {
		if a.began.After(at) && a.worker == worker {
			n++
		}
	}
	return n
}

func (c *chats) failed() (n int) {
	for _, a := range c.all {
		if a.err != nil {
			n++
		}
	}
	return n
}

// switchboard is an address behind which one engine takes another one's place at once.
type switchboard struct {
	l       net.Listener
	mu      sync.Mutex
	backend string
	open    []net.Conn
}

func newSwitchboard(t *testing.T, backend string) *switchboard {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &switchboard{l: l, backend: strings.TrimPrefix(backend, "http://")}
	go s.serve()
	t.Cleanup(func() { l.Close(); s.turn("") })
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
		if out, err := net.Dial("tcp", s.backend); err != nil {
			conn.Close()
		} else {
			s.open = append(s.open, conn, out)
			for _, way := range [][2]net.Conn{{conn, out}, {out, conn}} {
				go func() {
					_, _ = io.Copy(way[0], way[1])
					way[0].Close()
					way[1].Close()
				}()
			}
		}
		s.mu.Unlock()
	}
}

// turn ends all connections; new ones reach another engine.
func (s *switchboard) turn(backend string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backend = strings.TrimPrefix(backend, "http://")
	for _, c := range s.open {
		c.Close()
	}
	s.open = nil
}
