package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// askTimeout bounds one question to JetStream.
	askTimeout = 3 * time.Second
	// recordAge is how long the bucket keeps a record that is not written again, of a killed
	// process. Records are written again every refreshEvery.
	recordAge    = 15 * time.Minute
	refreshEvery = 5 * time.Minute
	// writeGap is the least time between two writes of one record, so that a flapping fact
	// causes no storm.
	writeGap = 500 * time.Millisecond
	// resyncGap is the least time between two readings of whole buckets.
	resyncGap = 500 * time.Millisecond
	// retryWrite is how long to wait after a write that failed.
	retryWrite = 500 * time.Millisecond
	// lastResync bounds the wait after readings that failed.
	lastResync = 5 * time.Second
)

// buckets are the two key-value buckets. Marks have one of their own because records in theirs
// age.
type buckets struct{ records, marks bucket }

// bucketWatches is both buckets with their watches.
type bucketWatches struct {
	buckets
	records, marks bucketWatch
	cancel         context.CancelFunc
}

// openBuckets finds or makes the buckets and watches them.
func (w *writer) openBuckets() (*bucketWatches, error) {
	ctx, cancel := context.WithCancel(w.ctx)
	// The watches end with ctx, so it has no deadline; it is canceled when opening takes too
	// long.
	late := time.AfterFunc(2*askTimeout, cancel)
	b := &bucketWatches{cancel: cancel}
	err := b.open(ctx, w)
	if !late.Stop() && err == nil {
		err = context.DeadlineExceeded
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bucketWatches) open(ctx context.Context, w *writer) (err error) {
	if b.buckets.records, err = w.bucket(ctx, recordsBucket, recordAge); err != nil {
		return err
	}
	if b.buckets.marks, err = w.bucket(ctx, marksBucket, 0); err != nil {
		return err
	}
	if err := b.records.open(ctx, b.buckets.records); err != nil {
		return err
	}
	return b.marks.open(ctx, b.buckets.marks)
}

// close ends the watches and waits until nothing comes from them.
func (b *bucketWatches) close() {
	if b == nil {
		return
	}
	b.cancel()
	b.records.close()
	b.marks.close()
}

// bucket finds a bucket or makes it. Holders of a role's token use it through others.
func (w *writer) bucket(ctx context.Context, name string, age time.Duration) (bucket, error) {
	if w.holder.role != "" {
		return &storedBucket{w.Cluster, name}, nil
	}
	full := w.cfg.Prefix + "-" + name
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	kv, err := w.js.KeyValue(ctx, full)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		cfg := jetstream.KeyValueConfig{
			Bucket: full, Description: "Warmpath: " + name, TTL: age, History: 1, MaxValueSize: maxRecord, Replicas: w.cfg.Replicas,
		}
		if w.server != nil && w.cfg.StoreDir == "" {
			cfg.Storage = jetstream.MemoryStorage
		}
		// Another process was faster, with other settings.
		if kv, err = w.js.CreateKeyValue(ctx, cfg); err != nil {
			if other, again := w.js.KeyValue(ctx, full); again == nil {
				return jetBucket{other}, nil
			}
		}
	}
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return nil, fmt.Errorf("cannot use bucket %s: %w: start nats-server with -js, and enable it for the account", full, err)
	case err != nil:
		return nil, fmt.Errorf("cannot use bucket %s: %w", full, err)
	}
	return jetBucket{kv}, nil
}

// withdrawal asks write to take records out of the bucket.
type withdrawal struct {
	ctx  context.Context
	keys []key
	done chan struct{}
}

// writer waits for JetStream, on a goroutine of its own.
type writer struct {
	*Cluster
	open       *bucketWatches // nil: none
	reopenDue  bool           // the buckets must be opened and read again
	compareDue bool           // the streams must be compared with the watches
	failures   int            // of opening them, in a row
	revisions  map[key]uint64 // of this process's writes
}

func newWriter(c *Cluster) *writer {
	return &writer{Cluster: c, reopenDue: true, revisions: map[key]uint64{}}
}

// run opens the buckets, at first and whenever that is asked for, and writes our records into
// them.
func (w *writer) run() {
	defer func() { w.open.close() }()
	refresh := time.NewTicker(refreshEvery - rand.N(refreshEvery/10))
	defer refresh.Stop()
	// Not all processes at one instant.
	look := time.NewTicker(w.cfg.lookEvery - rand.N(w.cfg.lookEvery/5))
	defer look.Stop()
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-w.resync:
			w.reopenDue = true
		case <-w.compare:
			w.compareDue = true
		case <-look.C:
			w.compareDue = true
		case <-w.write:
		case <-refresh.C:
			w.own.rewrite(func(key, *ownRecord) bool { return true })
		case lost := <-w.lostMarks:
			w.restore(lost)
		case l := <-w.leaving:
			w.leave(l)
		case <-again.C:
		}
		if wait := w.step(); wait > 0 {
			again.Reset(wait)
		}
	}
}

// step does the pending work and returns when to come again; 0: at the next signal.
func (w *writer) step() time.Duration {
	if w.compareDue && w.server != nil {
		if err := w.server.reopen(w.ctx, w.cfg.Log); err != nil {
			w.noteFailure(err)
		}
	}
	if !w.nc.IsConnected() {
		return retryWrite
	}
	if w.compareDue {
		w.compareDue = false
		if err := w.compareStreams(); err != nil {
			w.noteFailure(err)
			w.reopenDue = true
		}
	}
	if w.reopenDue {
		if err := w.reopen(); err != nil {
			w.noteFailure(err)
			w.failures++
			return resyncGap + rand.N(min(resyncGap<<min(w.failures, 8), lastResync))
		}
		w.reopenDue, w.failures = false, 0
	}
	return w.flush()
}

// compareStreams returns an error that wraps errStaleWatch where a watch no longer follows its
// stream. A stream without an answer proves nothing.
func (w *writer) compareStreams() error {
	if w.open == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(w.ctx, askTimeout)
	defer cancel()
	err := w.open.records.compare(ctx)
	if err == nil {
		err = w.open.marks.compare(ctx)
	}
	if errors.Is(err, errStaleWatch) {
		return err
	}
	return nil
}

// reopen replaces the watches.
func (w *writer) reopen() error {
	if !w.publishWatches(nil) {
		return nil
	}
	w.open.close()
	w.open = nil
	now, err := w.openBuckets()
	if err != nil {
		return err
	}
	w.open = now
	w.counts.resyncs.Add(1)
	w.buckets.Store(&now.buckets)
	w.publishWatches(now)
	return nil
}

// publishWatches gives run the watches to read. It returns false at the end.
func (w *writer) publishWatches(b *bucketWatches) bool {
	select {
	case w.opened <- b:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// flush writes dirty records and returns when to come again; 0: at the next signal.
func (w *writer) flush() time.Duration {
	for w.open != nil {
		next, wait := w.own.next(time.Now(), writeGap)
		if next == nil {
			return wait
		}
		ctx, cancel := context.WithTimeout(w.ctx, askTimeout)
		seen := w.open.records.seen.Load()
		revision, err := w.open.buckets.records.put(ctx, next.key.String(), next.data, 0)
		cancel()
		if w.own.wrote(next, revision, err == nil) {
			w.nameLost(next.key)
		}
		if err != nil {
			if w.ctx.Err() == nil {
				w.noteFailure(fmt.Errorf("cannot write %s: %w", next.key, err))
				w.reopenDue = true // the bucket may be gone
			}
			return retryWrite + rand.N(retryWrite)
		}
		w.revisions[next.key] = revision
		w.counts.writes.Add(1)
		if revision <= seen { // the write went to another stream than the watch
			w.compareDue = true
			return resyncGap
		}
	}
	return 0
}

// leave deletes records, but not later ones of other processes under their names.
func (w *writer) leave(l withdrawal) {
	defer close(l.done)
	for _, k := range l.keys {
		if revision := w.revisions[k]; revision != 0 && w.open != nil {
			// The bye was enough for all living processes.
			_ = w.open.buckets.records.remove(l.ctx, k.String(), revision)
		}
		delete(w.revisions, k)
	}
}

// restore writes marks of a lost store that no process has written, or deleted, since. Marks
// that do not come back through the watch are handed in again.
func (w *writer) restore(lost []Mark) {
	for _, m := range lost {
		data, err := encodeMark(m)
		if err != nil || w.open == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(w.ctx, askTimeout)
		err = w.open.buckets.marks.create(ctx, escape(m.Target), data)
		cancel()
		// Else another process was faster.
		if err != nil && !errors.Is(err, errChanged) {
			return
		}
	}
}
