package operator

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
)

// TestWrongKeysAreSlow: each costs a second or a connection, and a flood of them one line a minute.
func TestWrongKeysAreSlow(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		var out bytes.Buffer // of one writer at a time, as slog's handlers do it
		r := NewRefusals(slog.New(slog.NewTextHandler(&out, nil)))
		client := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 1234}
		begin := time.Now()
		require.True(t, r.wrongKey(client))
		require.Equal(t, wrongKeyDelay, time.Since(begin))

		var flood sync.WaitGroup
		var slow, closed atomic.Int64
		begin = time.Now()
		for range 10 * wrongKeysDelayed {
			flood.Go(func() {
				if r.wrongKey(client) {
					slow.Add(1)
				} else {
					closed.Add(1)
				}
			})
		}
		synctest.Wait()
		require.EqualValues(t, 9*wrongKeysDelayed, closed.Load())
		flood.Wait()
		require.EqualValues(t, wrongKeysDelayed, slow.Load())
		require.Equal(t, wrongKeyDelay, time.Since(begin))

		time.Sleep(wrongKeysLogged)
		require.True(t, r.wrongKey(client), "there is room again")
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.Len(t, lines, 2)
		require.Contains(t, lines[0], "client=192.0.2.7:1234")
		require.Contains(t, lines[1], "not_logged_before=640")
	})
}
