package request

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/upstream"
)

// TestKept: a monitor that gives a worker up in the moment between the first byte's arrival and its use has closed the connection. What came
// of the answer must not be passed on as its beginning.
func TestKept(t *testing.T) {
	e := &exchange{}
	require.NoError(t, e.kept())
	e.canceler.Cancel()
	require.ErrorIs(t, e.kept(), upstream.ErrCanceled)
	e.canceler.Reset()
	require.NoError(t, e.kept())
}
