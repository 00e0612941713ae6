package ingress

import (
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
)

// sent writes p and returns the result, and when the client was found to be stalled.
func (s *sender) sent(p []byte) (done chan error, stalled chan time.Time) {
	done, stalled = make(chan error, 1), make(chan time.Time, 1)
	s.stalled = func() { stalled <- time.Now() }
	go func() {
		_, err := s.Write(p)
		done <- err
	}()
	return done, stalled
}

// TestSlowClientIsNotStalled: a client that takes a few bytes at a time is served for hours; one
// that stops is cut.
func TestSlowClientIsNotStalled(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		s := &sender{nc: near, stall: time.Minute, untaken: func() int { return 0 }}
		done, stalled := s.sent(make([]byte, 10_000))
		buf := make([]byte, 10)
		for range 200 {
			time.Sleep(50 * time.Second)
			_, err := far.Read(buf)
			require.NoError(t, err)
		}
		stopped := time.Now()
		require.ErrorIs(t, <-done, errStalled)
		took := (<-stalled).Sub(stopped)
		assert.GreaterOrEqual(t, took, time.Minute)
		assert.LessOrEqual(t, took, time.Minute+time.Minute/stallLooks)
	})
}

// TestWholeAnswersAreTaken: an answer that is held as a whole is taken at the rate, after a grace that is short
// while such answers have much memory.
func TestWholeAnswersAreTaken(t *testing.T) {
	for _, tt := range []struct {
		others    int64 // bytes of other such answers
		pause     time.Duration
		low, high time.Duration // when it is cut
	}{
		{0, time.Second, 30 * time.Second, 32 * time.Second},
		{wholesLimit, time.Second, time.Second, 3 * time.Second},
		{wholesLimit, time.Millisecond, 0, 0},
	} {
		bubbletest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			defer near.Close()
			defer far.Close()
			var wholes atomic.Int64
			wholes.Store(tt.others)
			cut := make(chan time.Time, 1)
			cl := &Client{limit: readLimit{grace: 30 * time.Second, rate: 16 << 10}}
			cl.out = sender{
				nc: near, stall: time.Minute, untaken: func() int { return 0 }, wholes: &wholes,
				stalled: func() { cut <- time.Now(); _ = near.Close() },
			}
			cl.writes.out = &cl.out
			begin, sent := time.Now(), make(chan error, 1)
			go func() {
				_, err := cl.Write(make([]byte, 1<<20))
				sent <- err
			}()
			buf, err := make([]byte, 100), error(nil)
			for err == nil && far.SetReadDeadline(time.Now().Add(time.Minute)) == nil && len(sent) == 0 {
				time.Sleep(tt.pause)
				_, err = far.Read(buf)
			}
			if tt.high == 0 {
				require.NoError(t, <-sent, "100 KB a second")
				return
			}
			require.ErrorIs(t, <-sent, errStalled)
			took := (<-cut).Sub(begin)
			assert.GreaterOrEqual(t, took, tt.low)
			assert.LessOrEqual(t, took, tt.high)
			assert.Equal(t, tt.others, wholes.Load())
		})
	}
}

// fullConn is a socket that takes no byte.
type fullConn struct {
	net.Conn
	deadline time.Time
}

func (c *fullConn) SetWriteDeadline(t time.Time) error {
	c.deadline = t
	return nil
}

func (c *fullConn) Write([]byte) (int, error) {
	time.Sleep(time.Until(c.deadline))
	return 0, &net.OpError{Op: "write", Err: os.ErrDeadlineExceeded}
}

// TestTakenBytesAreProgress: a client that takes bytes out of a socket that is still too full to
// be written to is not stalled.
func TestTakenBytesAreProgress(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		begin := time.Now()
		stops := begin.Add(time.Hour)
		s := &sender{nc: &fullConn{}, stall: time.Minute, untaken: func() int {
			return 4<<20 - int(min(time.Since(begin), stops.Sub(begin))/(40*time.Second))
		}}
		done, stalled := s.sent(make([]byte, 10))
		require.ErrorIs(t, <-done, errStalled)
		took := (<-stalled).Sub(stops)
		assert.GreaterOrEqual(t, took, time.Minute-time.Minute/stallLooks)
		assert.LessOrEqual(t, took, time.Minute+time.Minute/stallLooks)
	})
}

// TestOthersDeadlines: the last message of TLS has a deadline of its own.
func TestOthersDeadlines(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		s := &sender{nc: near, stall: time.Minute, untaken: func() int { return 0 }}
		w := &wire{Conn: near, out: s}
		done, stalled := s.sent(make([]byte, 10))
		synctest.Wait()
		begin := time.Now()
		require.NoError(t, w.SetWriteDeadline(begin.Add(time.Second)))
		require.ErrorIs(t, <-done, os.ErrDeadlineExceeded)
		require.Equal(t, time.Second, time.Since(begin))
		require.Empty(t, stalled)
	})
}
