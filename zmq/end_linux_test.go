package zmq_test

import (
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/zmq"
)

// TestEndWithTheLastBytes: if a publisher's last bytes and the end of its stream arrived before
// the first read, the poller has reported both and does not report the end again.
func TestEndWithTheLastBytes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer near.Close()
	far, err := l.Accept()
	require.NoError(t, err)
	_, err = far.Write(wire("kv", 7, "last"))
	require.NoError(t, err)
	require.NoError(t, far.Close())

	tcp := near.(*net.TCPConn)
	raw, err := tcp.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		for err = unix.EINTR; errors.Is(err, unix.EINTR); {
			_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}, int(patience.Milliseconds()))
		}
	}))
	require.NoError(t, err)
	var got []uint64
	ended, err := zmq.Look(tcp, func(m zmq.Message) { got = append(got, m.Seq) })
	require.NoError(t, err)
	require.Equal(t, []uint64{7}, got)
	require.True(t, ended)
}
