package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/zmq"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

// subscribe returns what comes from endpoint from now on. It returns when the
// subscription has arrived: a load message comes at least each second, an event does not.
func subscribe(t *testing.T, endpoint, topic string) <-chan zmq.Message {
	t.Helper()
	got := make(chan zmq.Message, 10_000)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- zmq.Subscribe(ctx, zmq.Subscription{
			Endpoint: endpoint, Topic: topic, OnMessage: func(m zmq.Message) { got <- m.Clone() },
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return got
}

// all asks for every batch that was published so far.
func all(t *testing.T, endpoint string) (batches []kvevent.Batch, first uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := zmq.Replay(ctx, endpoint, 0, func(m zmq.Message) error {
		var b kvevent.Batch
		if len(batches) == 0 {
			first = m.Seq
		}
		batches = append(batches, b)
		return batches[len(batches)-1].Decode(m.Payload)
	})
	if err != nil {
		t.Fatalf("Replay: %v", err)
	}
	return batches, first
}

func TestEventsInEveryEncoding(t *testing.T) {
	for _, name := range []string{"0.5.8", "0.5.15", "0.5.18", "0.5.21", "0.5.23", "vllm"} {
		t.Run(name, func(t *testing.T) {
			cfg := fast()
			var err error
			if cfg.Encoding, err = kvevent.ParseEncoding(name); err != nil {
				t.Fatal(err)
			}
			w := startWorker(t, cfg)
			post(t, w, "/generate", generateBody(sequence(0, 21), 8, ""))
			batches := settled(t, w, 7)
			if batches[0].Events[0].Kind != kvevent.Cleared {
				t.Errorf("the first event is %v, want AllBlocksCleared", batches[0].Events[0].Kind)
			}
		})
	}
}

// settled waits until the replayed events tell of n blocks.
func settled(t *testing.T, w *Worker, n int) []kvevent.Batch {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		batches, first := all(t, w.ReplayEndpoint())
		blocks := replay(t, batches)
		if len(blocks) == n && first == 0 {
			return batches
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d blocks from sequence %d on, want %d from 0", len(blocks), first, n)
		}
	}
}

func TestLiveEventsAndLoad(t *testing.T) {
	w := startWorker(t, fast())
	loads := subscribe(t, w.LoadEndpoint(), "load")
	events := subscribe(t, w.EventsEndpoint(), "kv-events")
	var l kvevent.Load
	if m := next(t, loads); l.Decode(m.Payload) != nil || l.MaxTotal != 4096 || l.MaxRunning != 8 {
		t.Errorf("load message %x is %+v", m.Payload, l)
	}
	// The subscription to events may arrive a little later: ask until one comes.
	for i := uint32(0); len(events) == 0 || i == 0; i++ {
		post(t, w, "/generate", generateBody(sequence(i*50, 9), 1, ""))
	}
	var b kvevent.Batch
	if m := next(t, events); string(m.Topic) != "kv-events" || b.Decode(m.Payload) != nil || len(b.Events) == 0 {
		t.Errorf("event message %+v", m)
	}
	for l.PrefillUncached < 9 {
		_ = l.Decode(next(t, loads).Payload)
	}
}

// next is the next message.
func next(t *testing.T, from <-chan zmq.Message) zmq.Message {
	t.Helper()
	select {
	case m := <-from:
		return m
	case <-time.After(patience):
		t.Fatal("no message came")
		return zmq.Message{}
	}
}

func TestCrashAndRestart(t *testing.T) {
	cfg := fast()
	cfg.TimeScale = 1
	w := startWorker(t, cfg)
	url, events := w.URL(), w.EventsEndpoint()
	for round := range 3 {
		before := decode[generatedAnswer](t, post(t, w, "/generate", generateBody(sequence(0, 9), 1, "")))
		if before.Meta.Cached != 0 {
			t.Errorf("round %d: the cache outlived the restart: %d tokens", round, before.Meta.Cached)
		}
		settled(t, w, 2)
		resp := openStream(t, w)
		w.Faults().Restart(0)
		if _, err := io.Copy(io.Discard, resp.Body); err == nil {
			t.Errorf("round %d: the stream ended in order", round)
		}
		resp.Body.Close()
		untilReady(t, w)
		if w.URL() != url || w.EventsEndpoint() != events {
			t.Fatalf("round %d: moved to %s, %s", round, w.URL(), w.EventsEndpoint())
		}
		settled(t, w, 0)
	}
}

// openStream begins a long stream and reads its first event.
func openStream(t *testing.T, w *Worker) *http.Response {
	t.Helper()
	resp, err := http.Post(w.URL()+"/generate", "application/json",
		strings.NewReader(generateBody(sequence(0, 9), 1500, `,"stream":true`)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := resp.Body.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	return resp
}

// untilReady returns when /ready answers.
func untilReady(t *testing.T, w *Worker) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		if r, err := trySend(w, http.MethodGet, "/ready", "", nil); err == nil && r.status == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the worker did not come back")
		}
	}
}

func TestCrashStaysDownUntilRestarted(t *testing.T) {
	w := startWorker(t, fast())
	get(t, w, "/ready")
	post(t, w, "/sim/fault", `{"kind":"crash"}`)
	for {
		if _, err := trySend(w, http.MethodGet, "/ready", "", nil); err != nil {
			break
		}
	}
	w.Faults().Crash() // of what is down already: nothing
	w.Faults().Restart(0)
	untilReady(t, w)
}

func TestHangAnswersNothing(t *testing.T) {
	w := startWorker(t, fast())
	post(t, w, "/sim/fault", `{"kind":"hang"}`)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, w.URL()+"/ready", http.NoBody)
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		resp.Body.Close()
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a hanging worker answered: %v", err)
	}
	post(t, w, "/sim/fault", `{"kind":"unhang"}`)
	get(t, w, "/ready")
}

func TestHangEndsWithTheWorker(t *testing.T) {
	w := startWorker(t, fast())
	w.Faults().Hang()
	go func() { _, _ = trySend(w, http.MethodGet, "/ready", "", nil) }()
}

func TestFailures(t *testing.T) {
	w := startWorker(t, fast())
	post(t, w, "/sim/fault", `{"kind":"error-5xx","count":2}`)
	for i, want := range []int{500, 500, 200} {
		if r := post(t, w, "/generate", generateBody(sequence(0, 9), 1, "")); r.status != want {
			t.Errorf("request %d: status %d, want %d", i, r.status, want)
		}
	}
	if r := post(t, w, "/sim/fault", `{"kind":"meteor"}`); r.status != http.StatusBadRequest {
		t.Errorf("unknown fault: status %d, want 400", r.status)
	}
	post(t, w, "/sim/fault", `{"kind":"none"}`)
}

func TestLostEventsLeaveAGap(t *testing.T) {
	w := startWorker(t, fast())
	settled(t, w, 0)
	post(t, w, "/sim/fault", `{"kind":"drop-events","count":1,"lost":true}`)
	post(t, w, "/generate", generateBody(sequence(0, 9), 1, ""))
	post(t, w, "/generate", generateBody(sequence(50, 9), 1, ""))
	for {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		var seqs []uint64
		_, err := zmq.Replay(ctx, w.ReplayEndpoint(), 0, func(m zmq.Message) error { seqs = append(seqs, m.Seq); return nil })
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if len(seqs) == 2 {
			if seqs[0] != 0 || seqs[1] != 2 {
				t.Errorf("sequences %v, want 0 and 2", seqs)
			}
			return
		}
	}
}

func TestRanks(t *testing.T) {
	cfg := fast()
	cfg.DPSize = 2
	w := startWorker(t, cfg)
	for rank := range 2 {
		more := fmt.Sprintf(`,"routed_dp_rank":%d`, rank)
		a := decode[generatedAnswer](t, post(t, w, "/generate", generateBody(sequence(0, 9), 1, more)))
		b := decode[generatedAnswer](t, post(t, w, "/generate", generateBody(sequence(0, 9), 1, more)))
		if a.Meta.Cached != 0 || b.Meta.Cached != 8 || *b.Meta.Rank != rank {
			t.Errorf("rank %d: %+v then %+v", rank, a.Meta, b.Meta)
		}
	}
	for i := range 2 {
		at, err := shift(w.ReplayEndpoint(), i)
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := all(t, at); len(b) == 0 || b[0].Rank != i {
			t.Errorf("rank %d published %+v", i, b)
		}
	}
	if r := post(t, w, "/generate", generateBody(sequence(0, 9), 1, `,"routed_dp_rank":2`)); r.status != http.StatusBadRequest {
		t.Errorf("rank out of range: status %d, want 400", r.status)
	}
}

func TestConfigIsChecked(t *testing.T) {
	tests := map[string]Config{
		"page":     {PageSize: -1},
		"scale":    {TimeScale: -2},
		"chunk":    {Service: Service{ChunkedPrefill: 3}},
		"rate":     {Service: Service{PrefillTokensPerSecond: -1}},
		"context":  {ContextLength: 3},
		"endpoint": {EventConfig: EventConfig{Events: "tcp://nowhere"}},
		"listen":   {Listen: "nowhere:x"},
	}
	for name, cfg := range tests {
		t.Run(name, func(t *testing.T) {
			w, err := New(cfg)
			if err == nil {
				w.Close()
				t.Errorf("New(%+v) worked", cfg)
			}
		})
	}
}

func TestCloseWithoutRun(t *testing.T) {
	w, err := New(fast())
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	w.Close()
}
