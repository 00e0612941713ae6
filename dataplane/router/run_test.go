package router

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStopAtOnce stops a router before its listener is served: it must end all the same.
func TestStopAtOnce(t *testing.T) {
	for range 20 {
		d := newIdle(t, false)
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
