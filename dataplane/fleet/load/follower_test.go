package load_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/dataplane/fleet/load"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/leaktest"
	"github.com/warmpath/warmpath/zmq"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

func TestMain(m *testing.M) {
	// A probing client's cleaner sleeps for up to 10 s after its last connection and ends then.
	leaktest.Main(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*HostClient).connsCleaner"))
}

const patience = 3 * time.Minute

// sockets are the publishers of the workers.
type sockets struct {
	mu   sync.Mutex
	open map[string]zmq.Subscription // by endpoint; guarded by mu
	fail error
}

func (s *sockets) subscribe(ctx context.Context, sub zmq.Subscription) error {
	if s.fail != nil {
		return s.fail
	}
	s.mu.Lock()
	s.open[sub.Endpoint] = sub
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	delete(s.open, sub.Endpoint)
	s.mu.Unlock()
	return nil
}

func (s *sockets) get(endpoint string) (zmq.Subscription, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub, ok := s.open[endpoint]
	return sub, ok
}

// newWorker is an unreachable worker.
func newWorker(t *testing.T) *worker.Worker {
	t.Helper()
	r := worker.NewRegistry(worker.Config{Interval: time.Hour, Log: slog.New(slog.DiscardHandler)}, nil)
	w, err := r.Add("http://127.0.0.1:1")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Remove(w.URL)) })
	return w
}

var at = &worker.Info{Loads: &worker.Loads{Endpoints: []string{"tcp://a:1", "tcp://a:2"}, Topic: "load"}}

func TestFollow(t *testing.T) {
	s := &sockets{open: map[string]zmq.Subscription{}}
	f := load.New(s.subscribe, nil)
	w := newWorker(t)
	f.Up(w, at)
	var sub zmq.Subscription
	require.Eventually(t, func() (ok bool) { sub, ok = s.get("tcp://a:1"); return ok }, patience, time.Millisecond)
	_, second := s.get("tcp://a:2")
	require.False(t, second, "the worker has one rank")
	require.Equal(t, "load", sub.Topic)

	rank := w.Ranks()[0]
	sub.OnMessage(zmq.Message{Payload: kvevent.AppendLoad(nil, &kvevent.Load{
		Running: 3, Waiting: 2, Tokens: 700, MaxTotal: 5000, WaitingUncached: 900, MaxRunning: 16, PrefillUncached: 100_000, PrefillBusyMicros: 10_000_000,
	})})
	v := rank.Load.View(time.Now())
	require.Equal(t, []int64{5, 2, 700, 5000, 16}, []int64{v.InFlight, v.Waiting, v.Used, v.Pool, v.Most})
	require.InDelta(t, 10_000, v.Rate, 1e-6)
	require.False(t, v.Polled)

	sub.OnMessage(zmq.Message{Payload: []byte("nonsense")})
	sub.OnMalformed(2)
	require.EqualValues(t, 2, f.Malformed.Load())
	require.EqualValues(t, 5, rank.Load.View(time.Now()).InFlight, "nonsense changes nothing")

	f.Up(w, at) // described anew: one subscription, not two
	require.Eventually(t, func() bool { _, ok := s.get("tcp://a:1"); return ok }, patience, time.Millisecond)
	f.Down(w)
	_, ok := s.get("tcp://a:1")
	require.False(t, ok, "Down waits for the end")
	f.Down(w)
	f.Up(w, &worker.Info{})
	f.Down(w)
}

// TestDecodeLoad: requests that wait for pages of a decode worker have been sent there for
// good, and will take them.
func TestDecodeLoad(t *testing.T) {
	for role, want := range map[worker.Role]int64{worker.RoleDecode: 900, worker.RolePrefill: 700, worker.RoleRegular: 700} {
		s := &sockets{open: map[string]zmq.Subscription{}}
		f := load.New(s.subscribe, nil)
		r := worker.NewRegistry(worker.Config{Interval: time.Hour, Log: slog.New(slog.DiscardHandler)}, nil)
		w, err := r.AddSpec(worker.Spec{URL: "http://127.0.0.1:1", Role: role})
		require.NoError(t, err)
		f.Up(w, at)
		var sub zmq.Subscription
		require.Eventually(t, func() (ok bool) { sub, ok = s.get("tcp://a:1"); return ok }, patience, time.Millisecond)
		sub.OnMessage(zmq.Message{Payload: kvevent.AppendLoad(nil, &kvevent.Load{Tokens: 700, TotalTokens: 900, MaxTotal: 5000})})
		require.Equal(t, want, w.Ranks()[0].Load.View(time.Now()).Used, role.String())
		f.Down(w)
		require.NoError(t, r.Remove(w.URL))
	}
}

func TestEndpointThatCannotBe(t *testing.T) {
	f := load.New((&sockets{fail: errors.New("no such thing")}).subscribe, slog.New(slog.DiscardHandler))
	w := newWorker(t)
	f.Up(w, at)
	f.Down(w)
	require.Less(t, w.Ranks()[0].Load.View(time.Now()).Age, 0.0)
}
