package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// storeRequest asks a member with all rights to use a bucket. Who asks stands in the subject, which
// NATS has checked.
type storeRequest struct {
	Op       string `json:"op"`
	Bucket   string `json:"bucket"` // recordsBucket or marksBucket
	Key      string `json:"key,omitempty"`
	Data     []byte `json:"data,omitempty"`
	Revision uint64 `json:"revision,omitempty"` // the last one, 0 for any
	Deliver  string `json:"deliver,omitempty"`  // of opWatch: where entries go
}

// Operations of storeRequest, as those of bucket.
const (
	opPut    = "put"
	opCreate = "create"
	opRemove = "remove"
	opState  = "state"
	opWatch  = "watch"
)

// storeReply is the answer.
type storeReply struct {
	Error    string      `json:"error,omitempty"`
	Code     string      `json:"code,omitempty"` // of an error that the asker tells apart
	Revision uint64      `json:"revision,omitempty"`
	State    bucketState `json:"state,omitzero"`
	Pending  uint64      `json:"pending,omitempty"` // entries of the snapshot
}

// storeErrors are the errors that askers tell apart.
var storeErrors = map[string]error{"none": errNoBucket, "refused": errChanged, "denied": ErrDenied}

const (
	// maxStoring is the number of requests that wait, and maxStoringOf that of one user, many
	// processes of a router maybe. Further ones are lost, and come again.
	maxStoring, maxStoringOf = 256, 32
	// maxWatches bounds the watches of one user: a process has two, and two more for a moment
	// where it reads the buckets again.
	maxWatches = 32
	// maxHeld bounds the entries of one user in the buckets, in bytes. Names of a router's
	// processes have no end, nor have marks, and the embedded server has 256 MiB for all.
	maxHeld = 16 << 20
	// heldEntry is NATS's part of an entry, a deleted one included.
	heldEntry = 128
	// watchGrace is how long a watch outlives the connection of its user.
	watchGrace = 30 * time.Second
)

// store uses the buckets for holders of roles' tokens, who have no rights at JetStream.
type store struct {
	*Cluster
	watches map[string][]watchName // by user, oldest first
	held    map[string]*held       // by user
}

// held are the entries of a user in the buckets.
type held struct {
	bytes   int
	entries map[heldKey]heldSize
	aged    time.Time // the last look at all of them
}

// heldKey is an entry that a user has written.
type heldKey struct{ bucket, key string }

// heldSize is its size. Records leave with time.
type heldSize struct {
	bytes   int
	written time.Time
}

// watchName names a consumer.
type watchName struct{ stream, consumer string }

func newStore(c *Cluster) *store { return &store{c, map[string][]watchName{}, map[string]*held{}} }

// storeQueue holds the requests that wait, so that no user keeps out those of others.
type storeQueue struct {
	all chan storing

	mu sync.Mutex
	of map[string]int // by user; guarded by mu
}

// storing is a request, and the user.
type storing struct {
	*nats.Msg
	user string
}

func newStoreQueue() storeQueue {
	return storeQueue{all: make(chan storing, maxStoring), of: map[string]int{}}
}

// push queues a request, if it finds a place.
func (q *storeQueue) push(r storing) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.of[r.user] >= maxStoringOf {
		return false
	}
	select {
	case q.all <- r:
		q.of[r.user]++
		return true
	default:
		return false
	}
}

// taken frees the place of a request that was received from all.
func (q *storeQueue) taken(r storing) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.of[r.user]--; q.of[r.user] == 0 {
		delete(q.of, r.user)
	}
}

// serveStore has this member answer. Of several one gets each request.
func (c *Cluster) serveStore() {
	c.stores.Do(func() {
		queue := func(m *nats.Msg) {
			if !c.storing.push(storing{m, strings.TrimPrefix(m.Subject, c.subject(storeSubject)+".")}) {
				c.counts.dropped.Add(1)
			}
		}
		if _, err := c.nc.QueueSubscribe(c.subject(storeSubject)+".*.*", "store", queue); err != nil {
			c.noteFailure(fmt.Errorf("cannot serve holders of tokens: %w", err))
		}
	})
}

func (s *store) run() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case m := <-s.storing.all:
			s.storing.taken(m)
			s.serve(m)
		}
	}
}

func (s *store) serve(m storing) {
	h, err := parseUser(m.user)
	if err != nil || !s.isReply(m.Reply, h) {
		return // an answer elsewhere would be a write with our rights
	}
	var q storeRequest
	a := storeReply{}
	if err = json.Unmarshal(m.Data, &q); err == nil {
		ctx, cancel := context.WithTimeout(s.ctx, askTimeout)
		err = s.do(ctx, h, &q, &a)
		cancel()
	}
	if err != nil {
		a.Error = err.Error()
		for code, is := range storeErrors {
			if errors.Is(err, is) {
				a.Code = code
			}
		}
	}
	data, err := json.Marshal(a)
	if err != nil {
		return
	}
	_ = m.Respond(data) // the asker asks again
}

// secretEnd is the last token of subjects for replies.
var secretEnd = regexp.MustCompile(`^[0-9a-f]{32}$`)

// isReply reports whether a subject is for replies to a holder.
func (s *store) isReply(subject string, h holder) bool {
	end, ok := strings.CutPrefix(subject, s.subject(replySubject)+"."+h.user()+".")
	return ok && secretEnd.MatchString(end)
}

func (s *store) do(ctx context.Context, h holder, q *storeRequest, a *storeReply) (err error) {
	all := s.buckets.Load()
	if all == nil || !s.hearing.Load() {
		return fmt.Errorf("%w: %s", ErrDown, "the buckets are not open yet")
	}
	of := all.records
	if q.Bucket == marksBucket {
		of = all.marks
	} else if q.Bucket != recordsBucket {
		return fmt.Errorf("%w: bucket %.64q", errMalformed, q.Bucket)
	}
	switch q.Op {
	case opState:
		a.State, err = of.state(ctx)
		return err
	case opWatch:
		a.Pending, err = s.watch(ctx, h, of, q.Deliver)
		return err
	}
	if err := h.mayWrite(q); err != nil {
		return err
	}
	if err := s.hold(h.user(), q, time.Now()); err != nil {
		return err
	}
	switch q.Op {
	case opPut:
		a.Revision, err = of.put(ctx, q.Key, q.Data, q.Revision)
	case opCreate:
		err = of.create(ctx, q.Key, q.Data)
	case opRemove:
		err = of.remove(ctx, q.Key, q.Revision)
	default:
		err = fmt.Errorf("%w: operation %.64q", errMalformed, q.Op)
	}
	return err
}

// mayWrite refuses keys that are not the holder's, and data that others could not read.
func (h holder) mayWrite(q *storeRequest) (err error) {
	if q.Bucket == marksBucket {
		if _, err = unescape(q.Key); err == nil && !h.marks() {
			err = fmt.Errorf("%w: %s %s marks nothing", ErrDenied, h.role, h.name)
		}
		if err == nil && q.Op != opRemove {
			_, err = decodeMark(q.Key, q.Data)
		}
		return err
	}
	k, err := parseKey(q.Key)
	if err == nil && !h.writes(k) {
		err = fmt.Errorf("%w: %s %s does not write %s", ErrDenied, h.role, h.name, k)
	}
	if err == nil && q.Op != opRemove {
		_, err = decodeRecord(k, q.Data)
	}
	return err
}

// hold notes the entry that a write leaves in the buckets, and refuses one with which the user
// would have too much there. A mark stays, and so does the note that it was deleted.
func (s *store) hold(user string, q *storeRequest, now time.Time) error {
	h := s.held[user]
	if h == nil {
		h = &held{entries: map[heldKey]heldSize{}}
		s.held[user] = h
	}
	at, size := heldKey{q.Bucket, q.Key}, heldSize{heldEntry + len(q.Key), now}
	if q.Op != opRemove {
		size.bytes += len(q.Data)
	}
	if h.bytes+size.bytes > s.cfg.maxHeld && now.Sub(h.aged) > retryWrite {
		h.age(now)
	}
	more := size.bytes - h.entries[at].bytes
	if more > 0 && h.bytes+more > s.cfg.maxHeld {
		return fmt.Errorf("%w: %s would have more than %d KiB in the buckets: remove records or marks", ErrDenied, user, s.cfg.maxHeld>>10)
	}
	h.bytes, h.entries[at] = h.bytes+more, size
	return nil
}

// age forgets the records that have left.
func (h *held) age(now time.Time) {
	h.aged = now
	for k, size := range h.entries {
		if k.bucket == recordsBucket && now.Sub(size.written) > recordAge {
			h.bytes -= size.bytes
			delete(h.entries, k)
		}
	}
}

// watch has JetStream deliver a bucket to the holder: the last entry of each key, and all later
// ones. It returns the number of the former.
func (s *store) watch(ctx context.Context, h holder, of bucket, deliver string) (uint64, error) {
	if !s.isReply(deliver, h) {
		return 0, fmt.Errorf("%w: deliver subject %.64q", ErrDenied, deliver)
	}
	stream := "KV_" + of.name()
	consumer, err := s.js.CreatePushConsumer(ctx, stream, jetstream.ConsumerConfig{
		DeliverSubject: deliver, FilterSubject: "$KV." + of.name() + ".>", DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, AckPolicy: jetstream.AckNonePolicy,
		MaxDeliver: 1, MemoryStorage: true, Replicas: 1, InactiveThreshold: watchGrace,
	})
	if err != nil {
		return 0, err
	}
	info := consumer.CachedInfo()
	list := s.watches[h.user()]
	list = append(list, watchName{stream, info.Name})
	if len(list) > maxWatches {
		_ = s.js.DeleteConsumer(ctx, list[0].stream, list[0].consumer) // it may be gone by itself
		list = list[1:]
	}
	s.watches[h.user()] = list
	return info.NumPending + info.Delivered.Consumer, nil
}
