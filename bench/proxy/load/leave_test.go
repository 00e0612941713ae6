package load_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/proxy/load"
	"github.com/warmpath/warmpath/bench/proxy/mock"
)

// TestLeave: clients go in all the ways there are, and leave nothing behind.
func TestLeave(t *testing.T) {
	w := workers(t, mock.Config{Workers: 1, Gap: time.Millisecond})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan load.Left)
	go func() {
		cfg := short(load.Chat, w.Addrs()...)
		cfg.Stream, cfg.Rate, cfg.Tokens = true, 500, 200
		l, err := load.Leave(ctx, cfg)
		if err != nil {
			t.Error(err)
		}
		done <- l
	}()
	seen := func(enough func(mock.Stats) bool) func() bool {
		return func() bool {
			s, ok := w.Stats(t.Context())
			return ok && enough(s)
		}
	}
	require.Eventually(t, seen(func(s mock.Stats) bool { return s.Requests > 100 && s.Left > 50 }), 5*time.Minute, time.Millisecond)
	stop()
	l := <-done
	require.NotZero(t, l.Sending)
	require.NotZero(t, l.Waiting)
	require.NotZero(t, l.Listening)
	require.Eventually(t, seen(func(s mock.Stats) bool { return s.Connections == 0 }), 5*time.Minute, time.Millisecond)

	_, err := load.Leave(t.Context(), short(load.Chat, w.Addrs()...))
	require.ErrorIs(t, err, load.ErrConfig, "no rate")
}
