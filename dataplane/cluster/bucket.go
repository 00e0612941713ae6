package cluster

import (
	"context"
	"errors"
	"fmt"
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
	errRefused  = errors.New("cluster: NATS refuses the write")
)

// bucket is a key-value bucket: of JetStream, or through a member with all rights.
type bucket interface {
	name() string
	put(ctx context.Context, key string, data []byte) (revision uint64, err error)
	// create fails with errRefused where the key has a value.
	create(ctx context.Context, key string, data []byte) error
	// remove deletes a key; revision is its last one, or 0 for any.
	remove(ctx context.Context, key string, revision uint64) error
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

func (b jetBucket) put(ctx context.Context, key string, data []byte) (uint64, error) {
	return b.Put(ctx, key, data)
}

func (b jetBucket) create(ctx context.Context, key string, data []byte) error {
	_, err := b.Update(ctx, key, data, 0)
	if refused := (*jetstream.APIError)(nil); errors.As(err, &refused) {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return err
}

func (b jetBucket) remove(ctx context.Context, key string, revision uint64) error {
	if revision == 0 {
		return b.Delete(ctx, key)
	}
	return b.Delete(ctx, key, jetstream.LastRevision(revision))
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
