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
	require.Positive(t, r.Messages)
	require.Positive(t, r.Bytes)
	require.InDelta(t, 2*r.Messages, r.Heard, 1e-6)
	require.Positive(t, r.CPU)
	_, err = replica.Run(t.Context(), replica.Config{})
	require.Error(t, err)
}
