package cluster

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
)

// endedWatch is a watch that the end of a context or of the connection has stopped.
type endedWatch struct {
	jetstream.KeyWatcher
	updates chan jetstream.KeyValueEntry
}

func (w endedWatch) Updates() <-chan jetstream.KeyValueEntry { return w.updates }
func (w endedWatch) Stop() error                             { return nats.ErrBadSubscription }

// TestWatchThatEndsWhileItIsOpened: the client library never closes the channel of such a watch, so that Close hung.
func TestWatchThatEndsWhileItIsOpened(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		silent, slow := endedWatch{updates: make(chan jetstream.KeyValueEntry, 1)}, endedWatch{updates: make(chan jetstream.KeyValueEntry)}
		silent.updates <- nil
		sent := 0
		go func() {
			defer close(slow.updates)
			for ; sent < 5; sent++ {
				time.Sleep(endSilence * 9 / 10)
				slow.updates <- nil
			}
		}()
		b := &bucketWatches{records: bucketWatch{watch: slow}, marks: bucketWatch{watch: silent}, cancel: func() {}}
		b.close()
		assert.Equal(t, 5, sent)
		assert.Empty(t, silent.updates)
	})
}
