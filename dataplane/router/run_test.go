package router

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func newIdle(t *testing.T) *Router {
	t.Helper()
	d, err := New(Config{Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return d
}

// TestStopAtOnce stops a router before its listener is served: it must end all the same.
func TestStopAtOnce(t *testing.T) {
	for range 20 {
		d := newIdle(t)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-time.After(time.Minute):
			t.Fatal("the router goes on")
		}
	}
}

// TestServiceThatFails ends the router, after the requests in flight: what goes on without one of its services serves badly, and nobody
// is told.
func TestServiceThatFails(t *testing.T) {
	d := newIdle(t)
	failed := errors.New("the service has failed")
	d.services = append(d.services, func(context.Context) error { return failed })
	done := make(chan error, 1)
	go func() { done <- d.Run(t.Context()) }()
	select {
	case err := <-done:
		require.ErrorIs(t, err, failed)
	case <-time.After(time.Minute):
		t.Fatal("the router goes on")
	}
}
