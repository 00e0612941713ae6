package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// lookEvery is the time between two comparisons of streams with their watches. One question
// costs NATS some 20 µs: a thousand processes are half a percent of a core.
const lookEvery = 5 * time.Second

// endSilence is how long nothing comes from a watch that has ended without a sign.
const endSilence = time.Second

// errStaleWatch is a watch that no longer follows its stream.
var errStaleWatch = errors.New("cluster: a watch has outlived its bucket")

// bucketWatch is a bucket's stream with its watch. The client library keeps a watch alive: after
// an outage, or when its consumer is gone, it asks for the revisions after the last one that it
// read, whether the stream is still the same or not. A new stream counts from 1, so the watch
// would be silent until it overtakes the old one. compare finds that out.
type bucketWatch struct {
	bucket  bucket
	watch   jetstream.KeyWatcher
	created time.Time // of the stream; two streams of one name differ in it
	first   uint64    // the stream's last revision when the watch began: the snapshot holds it
	last    uint64    // the stream's last revision when it was compared before; 0: it was not

	seen atomic.Uint64 // the watch has read up to this revision; 0: the snapshot is not over

	whole bool                // the snapshot is over; read's own
	high  uint64              // highest revision; read's own
	keys  map[string]struct{} // read's own
	count atomic.Int64        // of keys
}

// open watches a bucket. It reads the stream's state before and after, so that created belongs
// to the watched stream.
func (b *bucketWatch) open(ctx context.Context, of bucket) error {
	b.bucket, b.keys = of, map[string]struct{}{}
	state, err := of.state(ctx)
	if err != nil {
		return err
	}
	b.created, b.first = state.Created, state.Last
	if b.watch, err = of.watch(ctx); err != nil {
		return fmt.Errorf("cannot watch bucket %s: %w", of.name(), err)
	}
	if state, err = of.state(ctx); err == nil && !state.Created.Equal(b.created) {
		err = fmt.Errorf("%w: %s was made anew", errStaleWatch, of.name())
	}
	return err
}

// close ends the watch and waits until nothing comes from it.
func (b *bucketWatch) close() {
	if b.watch == nil {
		return
	}
	// Stop fails where the context or the connection has ended the watch. The client library closes
	// the channel then too, unless that was while it opened the watch.
	stopped := b.watch.Stop() == nil
	for {
		var silent <-chan time.Time
		if !stopped {
			silent = time.After(endSilence)
		}
		select {
		case _, more := <-b.watch.Updates():
			if !more {
				return
			}
		case <-silent:
			return
		}
	}
}

// read takes in an entry of the watch; nil ends the snapshot. It returns false where revisions
// go back, which never happens within one stream.
func (b *bucketWatch) read(e jetstream.KeyValueEntry) bool {
	ordered := true
	if e == nil {
		b.whole, b.high = true, max(b.high, b.first)
	} else {
		ordered = e.Revision() > b.high
		b.high = max(b.high, e.Revision())
		b.keys[e.Key()] = struct{}{}
		b.count.Store(int64(len(b.keys)))
	}
	if b.whole {
		b.seen.Store(b.high)
	}
	return ordered
}

// compare asks for the stream's state and returns an error that wraps errStaleWatch unless the
// watch follows it.
func (b *bucketWatch) compare(ctx context.Context) error {
	// Before the question: the stream has them at least.
	seen, count := b.seen.Load(), b.count.Load()
	if seen == 0 && b.first != 0 {
		return nil // the snapshot's end is waited for elsewhere
	}
	state, err := b.bucket.state(ctx)
	switch {
	case errors.Is(err, errNoBucket):
		return fmt.Errorf("%w: %s is gone", errStaleWatch, b.bucket.name())
	case err != nil:
		return err
	case !state.Created.Equal(b.created):
		return fmt.Errorf("%w: %s was made anew", errStaleWatch, b.bucket.name())
	case state.Last < seen:
		return fmt.Errorf("%w: %s is an older state of itself", errStaleWatch, b.bucket.name())
	case seen < b.last:
		return fmt.Errorf("%w: of %s revision %d did not come", errStaleWatch, b.bucket.name(), b.last)
	case !state.Ages && int64(state.Keys) < count:
		// Nothing ages, so it was purged.
		return fmt.Errorf("%w: %s lacks keys that it had", errStaleWatch, b.bucket.name())
	}
	b.last = state.Last
	return nil
}
