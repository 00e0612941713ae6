package zmq_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/dataplane/testkit"
	"github.com/warmpath/warmpath/zmq"
)

// TestEndWithTheLastBytes: if a publisher's last bytes and the end of its stream arrived before
// the first read, the poller has reported both and does not report the end again.
func TestEndWithTheLastBytes(t *testing.T) {
	near, far := testkit.TCPPair(t)
	_, err := far.Write(wire("kv", 7, "last"))
	require.NoError(t, err)
	require.NoError(t, far.Close())

	raw, err := near.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		for err = unix.EINTR; errors.Is(err, unix.EINTR); {
			_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}, int(patience.Milliseconds()))
		}
	}))
	require.NoError(t, err)
	var got []uint64
	ended, err := zmq.Look(near, func(m zmq.Message) { got = append(got, m.Seq) })
	require.NoError(t, err)
	require.Equal(t, []uint64{7}, got)
	require.True(t, ended)
}
