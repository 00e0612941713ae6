package upstream

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// deadlineConn counts the deadlines that are set.
type deadlineConn struct {
	net.Conn
	set int
}

func (c *deadlineConn) SetReadDeadline(time.Time) error {
	c.set++
	return nil
}

// TestLaterDeadlineStands: a request that its caller cancels in time leaves the deadline of the
// request before it, unless that comes too soon, and the next request finds it.
func TestLaterDeadlineStands(t *testing.T) {
	now := time.Unix(1000, 0)
	cn := &deadlineConn{}
	r := responseReader{nc: cn}
	arm := func(wait time.Duration, longer bool) int {
		r.wait, r.longer, r.now, cn.set = wait, longer, now, 0
		require.NoError(t, r.arm())
		return cn.set
	}
	require.Equal(t, 1, arm(time.Hour, false))
	require.Equal(t, 0, arm(time.Second, true))
	require.Equal(t, 0, arm(time.Hour, false))
	require.Equal(t, 1, arm(2*time.Hour, true))
	require.Equal(t, 1, arm(time.Second, false))
	require.Equal(t, 1, arm(time.Minute, true))
}
