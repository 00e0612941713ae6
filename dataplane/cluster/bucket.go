package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Names of the buckets, after the prefix.
const (
	recordsBucket = "records"
	marksBucket   = "marks"
)

// Errors of buckets.
var (
	errNoBucket = errors.New("cluster: there is no such bucket")
	errChanged  = errors.New("cluster: another process has changed it meanwhile")
)

// bucket is a key-value bucket: of JetStream, or through a member with all rights.
type bucket interface {
	name() string
	// put fails with errChanged where last is not the key's last revision; 0 stands for any.
	put(ctx context.Context, key string, data []byte, last uint64) (revision uint64, err error)
	// create fails with errChanged where the key has a value, or had one.
	create(ctx context.Context, key string, data []byte) error
	// remove deletes a key; last is that of put.
	remove(ctx context.Context, key string, last uint64) error
	state(ctx context.Context) (bucketState, error) // errNoBucket: it is gone
	watch(ctx context.Context) (jetstream.KeyWatcher, error)
}

// bucketState is the state of a bucket's stream.
type bucketState struct {
	Created time.Time // two streams of one name differ in it
	Last    uint64    // last revision
	Keys    uint64
	Ages    bool // its keys leave with time
}

// jetBucket is a bucket of JetStream.
type jetBucket struct{ jetstream.KeyValue }

func (b jetBucket) name() string { return b.Bucket() }

func (b jetBucket) put(ctx context.Context, key string, data []byte, last uint64) (uint64, error) {
	if last == 0 {
		return b.Put(ctx, key, data)
	}
	revision, err := b.Update(ctx, key, data, last)
	return revision, changed(err)
}

func (b jetBucket) create(ctx context.Context, key string, data []byte) error {
	_, err := b.Update(ctx, key, data, 0)
	return changed(err)
}

func (b jetBucket) remove(ctx context.Context, key string, last uint64) error {
	if last == 0 {
		return b.Delete(ctx, key)
	}
	return changed(b.Delete(ctx, key, jetstream.LastRevision(last)))
}

// wrongLast are the codes of JetStream's errors for a revision that is not the last one: without
// and with a number in their text.
var wrongLast = []jetstream.ErrorCode{10164, jetstream.JSErrCodeStreamWrongLastSequence}

func changed(err error) error {
	if refused := (*jetstream.APIError)(nil); errors.As(err, &refused) && slices.Contains(wrongLast, refused.ErrorCode) {
		return fmt.Errorf("%w: %w", errChanged, err)
	}
	return err
}

func (b jetBucket) state(ctx context.Context) (bucketState, error) {
	status, err := b.Status(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrBucketNotFound) {
		return bucketState{}, fmt.Errorf("cannot look at bucket %s: %w", b.name(), errNoBucket)
	}
	if err != nil {
		return bucketState{}, fmt.Errorf("cannot look at bucket %s: %w", b.name(), err)
	}
	s, ok := status.(*jetstream.KeyValueBucketStatus)
	if !ok {
		return bucketState{}, fmt.Errorf("cannot look at bucket %s: it is a %T", b.name(), status)
	}
	info := s.StreamInfo()
	return bucketState{info.Created, info.State.LastSeq, info.State.Msgs, info.Config.MaxAge != 0}, nil
}

func (b jetBucket) watch(ctx context.Context) (jetstream.KeyWatcher, error) { return b.WatchAll(ctx) }
