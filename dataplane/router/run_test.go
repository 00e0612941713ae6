package router

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/admin/history"
)

func newIdle(t *testing.T) *Router {
	t.Helper()
	d, err := New(Config{Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return d
}

// TestHistoryRuns: a router that runs makes rows of its traffic.
func TestHistoryRuns(t *testing.T) {
	t.Parallel() // a row takes five seconds
	d := newIdle(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{}}
	require.Eventually(t, func() bool {
		resp, err := client.Get("http://" + d.OperatorAddr() + "/history")
		if err != nil {
			return false
		}
		defer func() { _ = resp.Body.Close() }()
		var report history.Report
		return json.NewDecoder(resp.Body).Decode(&report) == nil && len(report.Recent.At) > 0
	}, 3*time.Minute, 100*time.Millisecond)
	client.CloseIdleConnections()
	stop()
	require.NoError(t, <-done)
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
