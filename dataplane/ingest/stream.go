package ingest

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/worker"
	"github.com/warmpath/warmpath/radix"
	"github.com/warmpath/warmpath/zmq"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

// Stream follows the events of one rank.
type Stream struct {
	m        *Manager
	rank     *worker.Rank
	endpoint string
	replayAt string // "" when the worker offers no replay
	topic    string
	model    string
	log      *slog.Logger
	queue    chan zmq.Message
	cancel   context.CancelFunc
	done     chan struct{}
	Stats    Stats

	// The run goroutine's own.
	batch    kvevent.Batch
	blocks   []radix.Hash
	next     uint64    // sequence number expected next
	live     uint64    // last sequence number that came over the subscription
	heard    bool      // live is meaningful
	complete bool      // every event since the rank's start was seen
	resynced time.Time // last full resync
	orphans  bool      // an event named an unknown parent since the last resync

	mu      sync.Mutex
	holders map[int]radix.Worker // by KV group; guarded by mu, written by the run goroutine
	shapes  []Shape              // guarded by mu, written by the run goroutine
}

func newStream(m *Manager, rank *worker.Rank, info *worker.Info, i int) *Stream {
	s := &Stream{
		m: m, rank: rank, endpoint: info.Events.Endpoints[i], topic: info.Events.Topic, model: info.Model(),
		log:     m.cfg.Log.With("rank", rank.ID()),
		queue:   make(chan zmq.Message, m.cfg.Queue),
		done:    make(chan struct{}),
		holders: make(map[int]radix.Worker),
	}
	if info.Events.BlockSize > 0 { // known before the first event tells it
		s.shapes = []Shape{{Model: s.model, BlockSize: info.Events.BlockSize}}
	}
	if i < len(info.Events.Replays) {
		s.replayAt = info.Events.Replays[i]
	}
	return s
}

func (s *Stream) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go s.run(ctx)
}

// stop ends the stream and waits until its blocks are out of the index.
func (s *Stream) stop() {
	s.cancel()
	<-s.done
}

// run follows the rank until ctx ends.
func (s *Stream) run(ctx context.Context) {
	defer close(s.done)
	defer s.forget()
	unsubscribe, err := s.m.sub.Subscribe(zmq.Subscription{
		Endpoint: s.endpoint, Topic: s.topic,
		OnMessage:   s.enqueue,
		OnMalformed: func(int) { s.Stats.Malformed.Add(1) },
	})
	if err != nil {
		s.log.Error("cannot subscribe to KV events", "endpoint", s.endpoint, "error", err)
		s.Stats.setState(Degraded)
		return
	}
	defer unsubscribe()
	s.resync(ctx)
	tail := time.NewTicker(s.m.cfg.TailCheck)
	defer tail.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case msg := <-s.queue:
			s.take(ctx, msg)
		case <-tail.C:
			s.checkTail(ctx)
		}
	}
}

// enqueue runs on the receiver's goroutine and must not block. What does not
// fit is a gap, found and replayed at the next message.
func (s *Stream) enqueue(msg zmq.Message) {
	select {
	case s.queue <- msg:
	default:
		s.Stats.Overflows.Add(1)
	}
}

// take handles one message of the subscription.
func (s *Stream) take(ctx context.Context, msg zmq.Message) {
	if s.heard && msg.Seq <= s.live {
		s.restarted(ctx, msg)
		return
	}
	s.live, s.heard = msg.Seq, true
	switch {
	case msg.Seq < s.next: // came while the replay that brought it already ran
		s.Stats.Duplicates.Add(1)
		return
	case msg.Seq > s.next:
		s.gap(ctx, msg.Seq)
		if msg.Seq < s.next { // the replay brought it along
			return
		}
	}
	s.apply(msg)
	if s.orphans && s.complete && time.Since(s.resynced) >= s.m.cfg.ResyncEvery {
		s.log.Warn("KV events name a parent that was never stored; starting over", "sequence", msg.Seq)
		s.resync(ctx)
	}
}

// restarted starts over: within one subscription sequence numbers only grow,
// so a lower one is a new process with an empty cache.
func (s *Stream) restarted(ctx context.Context, msg zmq.Message) {
	s.Stats.Restarts.Add(1)
	s.log.Info("KV event sequence went back; the worker restarted", "from", s.live, "to", msg.Seq)
	s.live = msg.Seq
	s.resync(ctx)
	if msg.Seq >= s.next {
		s.apply(msg)
	}
}

// Blocks returns how many block copies the rank holds by its events.
func (s *Stream) Blocks() int {
	groups, _ := s.facts()
	total := 0
	for _, id := range groups {
		total += s.m.index.Blocks(id)
	}
	return total
}
