package worker_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

func TestDrainReasonsAreApart(t *testing.T) {
	r := worker.NewRegistry(worker.Config{Log: slog.New(slog.DiscardHandler), Dial: newFake().dial}, nil)
	w, err := r.AddSpec(worker.Spec{URL: "http://a:1/", Drain: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Remove(w.URL)) }()
	require.Equal(t, worker.Spec{URL: "http://a:1", Drain: true}, w.Spec())
	w.Drain(true)
	w.DrainFor(worker.DrainLeaving, true)
	require.Equal(t, []string{"operator", "source", "leaving"}, w.DrainReasons())
	w.Drain(false)
	w.DrainFor(worker.DrainLeaving, false)
	require.True(t, w.Drains(worker.DrainSource))
	require.Equal(t, []string{"source"}, w.DrainReasons())
	require.NoError(t, r.Update(worker.Spec{URL: "http://a:1"}))
	require.Empty(t, w.DrainReasons())
	require.ErrorIs(t, r.Update(worker.Spec{URL: "http://b:1"}), worker.ErrUnknown)
	require.ErrorIs(t, r.Update(worker.Spec{URL: "b"}), worker.ErrBadURL)

	lease := w.Ranks()[0].Load.Begin(1)
	require.EqualValues(t, 1, w.InFlight())
	lease.End()
	require.Zero(t, w.InFlight())
}

// TestDrainHasAnAge: the state of a draining worker began with its first drain.
func TestDrainHasAnAge(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r := worker.NewRegistry(worker.Config{Interval: time.Hour, Log: slog.New(slog.DiscardHandler), Dial: newFake().dial}, nil)
		w, err := r.Add("http://a:1")
		require.NoError(t, err)
		defer time.Sleep(time.Minute) // fasthttp cleans up idle connections for 10 s after the last
		defer func() { require.NoError(t, r.Remove(w.URL)) }()
		began := w.StateSince()
		for range 2 {
			time.Sleep(time.Hour)
			w.Drain(true)
			drained := time.Now()
			time.Sleep(time.Hour)
			w.DrainFor(worker.DrainLeaving, true)
			w.Drain(false)
			require.True(t, w.StateSince().Equal(drained))
			w.DrainFor(worker.DrainLeaving, false)
			require.True(t, w.StateSince().Equal(began))
		}
	})
}

func TestNormal(t *testing.T) {
	for url, want := range map[string]string{
		"http://a:1/": "http://a:1", "HTTPS://a": "https://a", "http://[fe80::1%25e0]:1": "http://[fe80::1%25e0]:1", "http://[::1]:1//": "http://[::1]:1",
	} {
		got, err := worker.Spec{URL: url}.Normal()
		require.NoError(t, err)
		require.Equal(t, want, got.URL)
		again, err := got.Normal()
		require.NoError(t, err)
		require.Equal(t, got, again)
	}
	_, err := worker.Spec{URL: "http://a", Bootstrap: worker.Bootstrap{Port: 1 << 16}}.Normal()
	require.ErrorIs(t, err, worker.ErrBadURL)
	for _, role := range []worker.Role{worker.RoleRegular, worker.RolePrefill, worker.RoleDecode} {
		got, err := worker.ParseRole(role.String())
		require.NoError(t, err)
		require.Equal(t, role, got)
	}
	_, err = worker.ParseRole("prefil")
	require.ErrorIs(t, err, worker.ErrBadURL)
}

// slowGoodbye is an observer that takes long to forget.
type slowGoodbye struct {
	forget chan struct{}
	told   chan string
}

func (s *slowGoodbye) Up(*worker.Worker, *worker.Info) { s.told <- "up" }

func (s *slowGoodbye) Down(*worker.Worker) {
	<-s.forget
	s.told <- "down"
}

// TestDetachDoesNotWait adds a worker again while its cache is still being forgotten: observers
// hear the end first.
func TestDetachDoesNotWait(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		o := &slowGoodbye{make(chan struct{}), make(chan string, 8)}
		r := worker.NewRegistry(worker.Config{Log: slog.New(slog.DiscardHandler), Dial: newFake().dial, LoadEvery: -1}, o)
		_, err := r.Add("http://a:1")
		require.NoError(t, err)
		require.Equal(t, "up", <-o.told)
		forgotten, err := r.Detach("http://a:1")
		require.NoError(t, err)
		require.Empty(t, r.Snapshot().Workers, "it is gone from the choice")
		_, err = r.Detach("http://a:1")
		require.ErrorIs(t, err, worker.ErrUnknown)

		added := make(chan error, 1)
		go func() {
			_, err := r.Add("http://a:1")
			added <- err
		}()
		time.Sleep(time.Hour)
		require.Empty(t, added)
		close(o.forget)
		forgotten()
		require.NoError(t, <-added)
		require.Equal(t, "down", <-o.told)
		require.Equal(t, "up", <-o.told)
		require.NoError(t, r.Remove("http://a:1"))
		time.Sleep(time.Minute) // the clean-up after the last connection
	})
}

// TestConfigure changes how often a worker is asked, while it is asked.
func TestConfigure(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		r := worker.NewRegistry(worker.Config{Log: slog.New(slog.DiscardHandler), Dial: f.dial, LoadEvery: -1, Interval: time.Second}, nil)
		_, err := r.Add("http://a:1")
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		before := f.got("/ready")
		require.LessOrEqual(t, before, 12)
		r.Configure(func(c *worker.Config) { c.Interval = 10 * time.Millisecond })
		time.Sleep(10 * time.Second)
		require.GreaterOrEqual(t, f.got("/ready")-before, 800)
		require.NoError(t, r.Remove("http://a:1"))
		time.Sleep(time.Minute)
	})
}
