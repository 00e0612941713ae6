package ingest

import (
	"context"
	"errors"
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
	ctx      context.Context // of run; it begins before run does, so that stop needs no order
	cancel   context.CancelFunc
	done     chan struct{}
	Stats    Stats

	// The run goroutine's own.
	begun    bool   // begin has run
	failure  string // why there is no connection, as it was logged
	batch    kvevent.Batch
	blocks   []radix.Hash
	joined   bool          // next is known
	next     uint64        // sequence number expected next
	last     uint64        // hash of the payload of message next-1
	live     uint64        // last sequence number that came over the subscription
	heard    bool          // live is meaningful
	complete bool          // every event since the rank's start was seen
	unproven bool          // what the rank holds is a snapshot's, and nothing has shown yet that it is still so
	orphans  bool          // an event named an unknown parent since the last resync
	resynced time.Time     // last full resync, or try at one
	wait     time.Duration // between resyncs that nothing but orphans or silence asks for
	checked  uint64        // Stats.Batches at the last check
	mute     mute
	asks     allowance // replays

	// applying is held while the index takes in a message or forgets, so that
	// who holds it finds content and position to be of one moment. Manager.mu and
	// mu may be taken under it.
	applying sync.Mutex
	mark     position // of the content; guarded by applying

	mu      sync.Mutex
	holders map[int]radix.Worker // by KV group; guarded by mu, written by the run goroutine
	shapes  []Shape              // guarded by mu, written by the run goroutine
}

func newStream(m *Manager, rank *worker.Rank, info *worker.Info, i int) *Stream {
	s := &Stream{
		m: m, rank: rank, endpoint: info.Events.Endpoints[i], topic: info.Events.Topic, model: info.Model(),
		log:     m.cfg.Log.With("rank", rank.ID()),
		done:    make(chan struct{}),
		holders: make(map[int]radix.Worker),
		wait:    m.cfg.ResyncEvery,
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if info.Events.BlockSize > 0 { // known before the first event tells it
		s.shapes = []Shape{{Model: s.model, BlockSize: info.Events.BlockSize}}
	}
	if i < len(info.Events.Replays) {
		s.replayAt = info.Events.Replays[i]
	}
	return s
}

func (s *Stream) start() { go s.run(s.ctx) }

// run follows the rank until ctx ends. All that follows happens on its
// goroutine, between two reads of the subscription's socket: during a replay
// the rank's publisher queues what comes live.
func (s *Stream) run(ctx context.Context) {
	defer close(s.done)
	defer s.forget()
	err := s.m.sub(ctx, zmq.Subscription{
		Endpoint: s.endpoint, Topic: s.topic,
		OnMessage:    func(msg zmq.Message) { s.take(ctx, msg) },
		OnMalformed:  func(int) { s.Stats.Malformed.Add(1) },
		OnConnect:    func() { s.connected(ctx) },
		OnDisconnect: func(err error) { s.disconnected(ctx, err) },
		OnTick:       func() { s.check(ctx) },
		Every:        s.m.cfg.TailCheck,
		Pace:         s.pace,
	})
	if err != nil {
		s.log.Error("cannot subscribe to KV events", "endpoint", s.endpoint, "error", err)
		s.setState(Degraded)
	}
}

// connected begins to follow the rank, or finds out what it published while
// there was no connection, and whether it is still the same process.
func (s *Stream) connected(ctx context.Context) {
	if s.failure != "" {
		s.log.Info("following KV events", "endpoint", s.endpoint)
		s.failure = ""
	}
	switch {
	case !s.begun:
		s.begun = true
		s.begin(ctx)
	case s.replayAt != "" && s.Stats.State() == Live && !s.mute.on:
		s.checkTail(ctx)
	}
}

// disconnected tells once why there is no connection. What the rank published
// before can be learnt without one, and followed by its replay.
func (s *Stream) disconnected(ctx context.Context, err error) {
	if errors.Is(err, zmq.ErrProtocol) {
		s.Stats.Malformed.Add(1)
	}
	if s.failure == "" {
		s.Stats.Disconnects.Add(1)
		if s.begun {
			s.rank.Worker.Doubt() // a process that dies closes all of its connections
		}
	}
	if failure := err.Error(); failure != s.failure {
		s.log.Warn("KV events do not come; trying again and again", "endpoint", s.endpoint, "error", err)
		s.failure = failure
	}
	if !s.begun {
		s.begun = true
		s.begin(ctx)
	}
}

// take handles one message of the subscription.
func (s *Stream) take(ctx context.Context, msg zmq.Message) {
	if s.unproven {
		s.prove(ctx)
	}
	if s.heard && msg.Seq <= s.live {
		s.restarted(ctx, msg)
		return
	}
	s.live, s.heard = msg.Seq, true
	s.unmute()
	switch {
	case msg.Seq < s.next: // came while the replay that brought it already ran
		s.Stats.Duplicates.Add(1)
		if msg.Seq+1 == s.next && !s.isLast(msg) {
			s.restarted(ctx, msg)
		}
		return
	case msg.Seq > s.next:
		s.gap(ctx, msg.Seq)
		if msg.Seq < s.next { // the replay brought it along
			return
		}
	}
	s.apply(msg, true)
	if s.orphans && s.complete && time.Since(s.resynced) >= s.wait {
		s.log.Warn("KV events name a parent that was never stored; starting over", "sequence", msg.Seq)
		s.resync(ctx)
	}
}

// restarted starts over: within one subscription sequence numbers only grow,
// so a lower one is a new process with an empty cache.
func (s *Stream) restarted(ctx context.Context, msg zmq.Message) {
	s.Stats.Restarts.Add(1)
	s.rank.Worker.Doubt()
	s.log.Info("KV events are another process's; the worker restarted", "next", s.next, "came", msg.Seq)
	s.live = msg.Seq
	s.resync(ctx)
	if msg.Seq >= s.next {
		s.reach(msg.Seq)
		s.apply(msg, true)
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
