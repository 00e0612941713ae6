package request

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/upstream"
)

// TestKeep: a monitor may end an attempt between the arrival of its first byte and its use. The
// connection is closed then: the bytes must not be forwarded as the beginning of an answer.
func TestKeep(t *testing.T) {
	x := &exchange{}
	a := singleAttempt{x: x}
	require.NoError(t, a.keep())
	x.canceler.Cancel()
	require.ErrorIs(t, a.keep(), upstream.ErrCanceled)
	x.canceler.Reset()
	require.NoError(t, a.keep())
}
