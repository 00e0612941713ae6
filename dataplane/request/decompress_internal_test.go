package request

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
)

// counter is a decoder that counts what it returns.
type counter struct {
	decoder
	n *int
}

func (c counter) Read(p []byte) (int, error) {
	n, err := c.decoder.Read(p)
	*c.n += n
	return n, err
}

// TestBombsAreNotedEarly: a megabyte that stands for a gigabyte must not cost the memory and the time of the longest body.
func TestBombsAreNotedEarly(t *testing.T) {
	const limit = 16 << 20
	var zipped, zstded bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	sw, err := zstd.NewWriter(&zstded)
	require.NoError(t, err)
	for range 20 {
		for _, w := range []io.Writer{zw, sw} {
			_, err := w.Write(make([]byte, 1<<20))
			require.NoError(t, err)
		}
	}
	require.NoError(t, zw.Close())
	require.NoError(t, sw.Close())
	// What stands behind a bomb does not make it smaller.
	tail := strings.Repeat("\x00", 1<<20)
	for name, c := range map[string]struct {
		pool *sync.Pool
		body []byte
	}{"gzip": {&gzips, append(zipped.Bytes(), tail...)}, "zstd": {&zstds, append(zstded.Bytes(), tail...)}} {
		n := 0
		pool := &sync.Pool{New: func() any { d, _ := c.pool.Get().(decoder); return decoder(counter{d, &n}) }}
		_, err := newInflations().inflate(pool, c.body, limit)
		require.ErrorIs(t, err, errInflated, name)
		assert.Less(t, n, limit/2, name)
	}
	// What is dense in its beginning alone is no bomb.
	var mixed bytes.Buffer
	mw := gzip.NewWriter(&mixed)
	text := strings.Repeat(" ", 2<<20) + strings.Repeat("many words ", 1<<10)
	_, _ = io.WriteString(mw, text)
	require.NoError(t, mw.Close())
	plain, err := newInflations().inflate(&gzips, mixed.Bytes(), limit)
	require.NoError(t, err)
	assert.Equal(t, text, string(plain))
}

// gate is a decoder that waits.
type gate struct{ open <-chan struct{} }

func (gate) Reset(io.Reader) error { return nil }

func (g gate) Read([]byte) (int, error) {
	<-g.open
	return 0, io.EOF
}

// TestInflationsLeaveProcessorsToOthers: clients with compressed bodies wait for each other, and for half of the processors.
func TestInflationsLeaveProcessorsToOthers(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		open, all := make(chan struct{}), newInflations()
		var begun atomic.Int64
		pool := &sync.Pool{New: func() any { begun.Add(1); return decoder(gate{open}) }}
		var running sync.WaitGroup
		for range 4 * cap(all) {
			running.Go(func() { _, _ = all.inflate(pool, nil, 1) })
		}
		synctest.Wait()
		assert.EqualValues(t, cap(all), begun.Load())
		close(open)
		running.Wait()
	})
}
