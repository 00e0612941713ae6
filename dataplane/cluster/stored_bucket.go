package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// storedBucket is a bucket that a member with all rights uses for this one.
type storedBucket struct {
	*Cluster
	of string // recordsBucket or marksBucket
}

func (b *storedBucket) name() string { return b.prefix + "-" + b.of }

func (b *storedBucket) put(ctx context.Context, key string, data []byte, last uint64) (uint64, error) {
	a, err := b.do(ctx, storeRequest{Op: opPut, Key: key, Data: data, Revision: last})
	return a.Revision, err
}

func (b *storedBucket) create(ctx context.Context, key string, data []byte) error {
	_, err := b.do(ctx, storeRequest{Op: opCreate, Key: key, Data: data})
	return err
}

func (b *storedBucket) remove(ctx context.Context, key string, last uint64) error {
	_, err := b.do(ctx, storeRequest{Op: opRemove, Key: key, Revision: last})
	return err
}

func (b *storedBucket) state(ctx context.Context) (bucketState, error) {
	a, err := b.do(ctx, storeRequest{Op: opState})
	return a.State, err
}

func (b *storedBucket) do(ctx context.Context, q storeRequest) (a storeReply, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	q.Bucket = b.of
	data, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	answer, err := b.ask(ctx, b.subject(storeSubject)+"."+b.holder.user(), data)
	if err != nil {
		return a, fmt.Errorf("cannot use bucket %s: %w (a router with the cluster's secret does, for holders of roles' tokens)", b.name(), err)
	}
	if err = json.Unmarshal(answer, &a); err != nil {
		return a, fmt.Errorf("cannot use bucket %s: %w", b.name(), err)
	}
	if is := storeErrors[a.Code]; is != nil {
		return a, fmt.Errorf("cannot use bucket %s: %w: %s", b.name(), is, a.Error)
	}
	if a.Error != "" {
		return a, fmt.Errorf("cannot use bucket %s: %s", b.name(), a.Error)
	}
	return a, nil
}

// watchQueue is the number of entries between the connection and the reader.
const watchQueue = 4096

func (b *storedBucket) watch(ctx context.Context) (jetstream.KeyWatcher, error) {
	w := &storedWatch{
		keys: "$KV." + b.name() + ".", messages: make(chan *nats.Msg, watchQueue), updates: make(chan jetstream.KeyValueEntry), stopped: make(chan struct{}),
	}
	deliver := b.newReply()
	sub, err := b.nc.ChanSubscribe(deliver, w.messages)
	if err != nil {
		return nil, err
	}
	a, err := b.do(ctx, storeRequest{Op: opWatch, Deliver: deliver})
	if err != nil {
		_ = sub.Unsubscribe()
		return nil, err
	}
	go func() {
		defer close(w.updates)
		defer func() { _ = sub.Unsubscribe() }() // fails where all is over
		w.run(ctx, a.Pending)
	}()
	return w, nil
}

// storedWatch is a watch whose entries come from JetStream, by a consumer that another member has
// made. It ends where one of them is lost.
type storedWatch struct {
	keys     string // beginning of the subjects of keys
	messages chan *nats.Msg
	updates  chan jetstream.KeyValueEntry
	stopped  chan struct{}
	stopping sync.Once
}

// Updates implements jetstream.KeyWatcher.
func (w *storedWatch) Updates() <-chan jetstream.KeyValueEntry { return w.updates }

// Stop implements jetstream.KeyWatcher.
func (w *storedWatch) Stop() error {
	w.stopping.Do(func() { close(w.stopped) })
	return nil
}

func (w *storedWatch) run(ctx context.Context, pending uint64) {
	whole := pending == 0
	if whole && !w.send(ctx, nil) {
		return
	}
	for read := uint64(1); ; read++ {
		var m *nats.Msg
		select {
		case m = <-w.messages:
		case <-ctx.Done():
			return
		case <-w.stopped:
			return
		}
		at, err := m.Metadata()
		key, ok := strings.CutPrefix(m.Subject, w.keys)
		if err != nil || !ok || at.Sequence.Consumer != read {
			return
		}
		if !w.send(ctx, storedEntry{key: key, value: m.Data, revision: at.Sequence.Stream, removed: m.Header.Get("KV-Operation") != "" || m.Header.Get("Nats-Marker-Reason") != ""}) {
			return
		}
		// A key that was written again meanwhile comes once.
		if !whole && (read >= pending || at.NumPending == 0) {
			if whole = true; !w.send(ctx, nil) {
				return
			}
		}
	}
}

func (w *storedWatch) send(ctx context.Context, e jetstream.KeyValueEntry) bool {
	select {
	case w.updates <- e:
		return true
	case <-ctx.Done():
	case <-w.stopped:
	}
	return false
}

// storedEntry is an entry of a storedWatch. Nothing asks for the methods that it lacks.
type storedEntry struct {
	jetstream.KeyValueEntry
	key      string
	value    []byte
	revision uint64
	removed  bool
}

// Key implements jetstream.KeyValueEntry.
func (e storedEntry) Key() string { return e.key }

// Value implements jetstream.KeyValueEntry.
func (e storedEntry) Value() []byte { return e.value }

// Revision implements jetstream.KeyValueEntry.
func (e storedEntry) Revision() uint64 { return e.revision }

// Operation implements jetstream.KeyValueEntry.
func (e storedEntry) Operation() jetstream.KeyValueOp {
	if e.removed {
		return jetstream.KeyValueDelete
	}
	return jetstream.KeyValuePut
}
