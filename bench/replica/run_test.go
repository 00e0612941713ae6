package replica_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/replica"
)

func TestRun(t *testing.T) {
	r, err := replica.Run(t.Context(), replica.Config{Routers: 3, Workers: 5, Rate: 40, For: time.Second})
	require.NoError(t, err)
	require.InDelta(t, 120, r.Requests, 1)
	require.Greater(t, r.Messages, r.States)
	require.Positive(t, r.Bytes)
	require.GreaterOrEqual(t, r.Heard, r.States*2)
	require.Positive(t, r.CPU)
	_, err = replica.Run(t.Context(), replica.Config{})
	require.Error(t, err)
}
