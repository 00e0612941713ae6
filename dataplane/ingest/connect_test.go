package ingest_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/zmq"
)

// TestReconnect: events published without a connection are asked for as soon as it stands again,
// and so is the identity of the process.
func TestReconnect(t *testing.T) {
	inWorld(t, ingest.Config{TailCheck: time.Hour}, 1, func(w *world) {
		p := w.pubs[0]
		w.up()
		for i := range 4 {
			p.publish(true, store(a, i, i+1))
		}
		synctest.Wait()
		p.publish(false, remove(a, 2, 4))
		p.reconnect()
		synctest.Wait()
		w.wantHeld(2, a, "found at once")
		require.EqualValues(t, []uint64{1, 1, 0}, []uint64{
			w.stats().Disconnects.Load(), w.stats().Gaps.Load(), w.stats().Restarts.Load(),
		}, "disconnects, gaps, restarts")

		p.restart()
		p.publish(false, store(b, 0, 3))
		p.reconnect()
		synctest.Wait()
		w.wantHeld(0, a, "of the old process")
		w.wantHeld(3, b, "of the new process")
		p.publish(true, remove(b, 1, 3))
		synctest.Wait()
		w.wantHeld(1, b, "and it goes on")
		require.EqualValues(t, []uint64{1, 2}, []uint64{w.stats().Restarts.Load(), w.stats().Resyncs.Load()}, "restarts, resyncs")
	})
}

// TestUnreachable: a rank with an unreachable publisher is followed by its replay, and live when
// it can be reached.
func TestUnreachable(t *testing.T) {
	for _, down := range []error{errors.New("connection refused"), fmt.Errorf("%w: a web server", zmq.ErrProtocol)} {
		inWorld(t, ingest.Config{}, 1, func(w *world) {
			var log bytes.Buffer
			w.m = ingest.NewManager(ingest.Config{Log: slog.New(slog.NewTextHandler(&log, nil))}, w.index, w.net.subscribe, w.net.replay)
			p := w.pubs[0]
			p.down = down
			p.publish(true, store(a, 0, 4))
			w.up()
			require.Equal(t, ingest.Live, w.stats().State())
			w.wantHeld(4, a, "replayed")
			p.publish(true, remove(a, 3, 4))
			w.after(11 * time.Second)
			w.wantHeld(3, a, "found by asking")
			require.EqualValues(t, 1, w.stats().Disconnects.Load(), "disconnects")
			require.Equal(t, errors.Is(down, zmq.ErrProtocol), w.stats().Malformed.Load() > 0, "malformed")

			p.with(func() { p.down = nil })
			w.after(time.Second)
			p.publish(true, remove(a, 1, 3))
			synctest.Wait()
			w.wantHeld(1, a, "live")
			require.EqualValues(t, []uint64{1, 1}, []uint64{w.stats().Resyncs.Load(), w.stats().Disconnects.Load()}, "resyncs, disconnects")
			w.m.Down(w.worker)
			require.Equal(t, 1, strings.Count(log.String(), "trying again"), "warnings")
			require.Equal(t, 1, strings.Count(log.String(), "following KV events"), "notes that it works")
		})
	}
}
