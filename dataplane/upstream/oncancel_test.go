package upstream_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/upstream"
)

func TestOnCancel(t *testing.T) {
	var c upstream.Canceler
	calls := 0
	require.True(t, c.OnCancel(func() { calls++ }))
	require.True(t, c.OnCancel(nil))
	require.True(t, c.OnCancel(func() { calls += 10 }))
	c.Cancel()
	c.Cancel()
	require.Equal(t, 10, calls, "the last function, once")
	require.False(t, c.OnCancel(func() { calls++ }), "it was canceled before")
	c.Reset()
	require.True(t, c.OnCancel(nil))
	c.Cancel()
	require.Equal(t, 10, calls)
}
