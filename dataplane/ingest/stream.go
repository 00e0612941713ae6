package ingest

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
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

	begun   bool   // begin has run; of the subscription's callbacks
	failure string // why there is no connection, as it was logged; of the subscription's callbacks
	asks    sync.WaitGroup

	// turn is held while a message, a tick, an answer to a replay or the end of
	// one is handled, and by a snapshot while it copies content and position. It
	// is never held across I/O. Manager.mu and mu may be taken under it.
	turn        sync.Mutex
	batch       kvevent.Batch // guarded by turn, as is all below
	blocks      []radix.Hash
	joined      bool          // next is known
	next        uint64        // sequence number expected next
	last        uint64        // hash of the payload of message next-1
	first       uint64        // sequence number that the content begins with
	empty       bool          // nothing was applied since the content was dropped
	live        uint64        // last sequence number that came over the subscription
	heard       bool          // live is meaningful
	complete    bool          // every event since the rank's start was seen
	unproven    bool          // what the rank holds is a snapshot's, and nothing has shown yet that it is still so
	orphans     bool          // an event named an unknown parent since the last resync
	short       bool          // the last history had a hole, and ends the content there
	mark        position      // of the content
	asking      *ask          // the replay under way; nil: there is none
	held        heldBack      // messages that wait for its end
	allowed     allowance     // replays
	resynced    time.Time     // last full resync, or try at one
	wait        time.Duration // between resyncs that nothing but orphans or silence asks for
	quiet       time.Time     // last message of the subscription, or last check
	checked     time.Time     // last check
	failed      int           // checks in a row that were not answered
	mute        mute
	hidden      map[radix.Hash]struct{} // blocks that were stored for prompts with an extra_key
	hiddenNames map[uint64]struct{}     // and their engine hashes

	mu      sync.Mutex
	holders map[int]radix.Worker // by KV group; guarded by mu, written under turn
	shapes  []Shape              // guarded by mu, written under turn
}

func newStream(m *Manager, rank *worker.Rank, info *worker.Info, i int) *Stream {
	s := &Stream{
		m: m, rank: rank, endpoint: info.Events.Endpoints[i], topic: info.Events.Topic, model: info.Model(),
		log:     m.cfg.Log.With("rank", rank.ID()),
		done:    make(chan struct{}),
		holders: make(map[int]radix.Worker),
		wait:    m.cfg.ResyncEvery, quiet: time.Now(), empty: true,
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

// run follows the rank until ctx ends. Messages are read and handled on its
// goroutine; a replay has a goroutine of its own, so that reading never waits.
func (s *Stream) run(ctx context.Context) {
	defer close(s.done)
	defer s.forget()
	defer s.asks.Wait()
	defer s.cancel()
	err := s.m.sub(ctx, zmq.Subscription{
		Endpoint: s.endpoint, Topic: s.topic,
		OnMessage:    func(msg zmq.Message) { s.locked(func() { s.take(msg) }) },
		OnMalformed:  func(int) { s.Stats.Malformed.Add(1) },
		OnConnect:    s.connected,
		OnDisconnect: s.disconnected,
		OnTick:       func() { s.locked(s.check) },
		Every:        s.m.cfg.TailCheck,
		Pace:         s.pace,
	})
	if err != nil {
		s.log.Error("cannot subscribe to KV events", "endpoint", s.endpoint, "error", err)
		s.locked(func() { s.setState(Degraded) })
	}
}

// locked calls fn under turn.
func (s *Stream) locked(fn func()) {
	s.turn.Lock()
	defer s.turn.Unlock()
	fn()
}

// connected begins to follow the rank, or finds out whether it is still the
// same process and what it published while there was no connection.
func (s *Stream) connected() {
	if s.failure != "" {
		s.log.Info("following KV events", "endpoint", s.endpoint)
		s.failure = ""
	}
	s.locked(func() {
		if s.begun {
			s.suspect(true)
			return
		}
		s.begun = true
		s.begin()
	})
}

// disconnected tells once why there is no connection. What the rank published
// before can be learnt without one, and followed by its replay.
func (s *Stream) disconnected(err error) {
	if errors.Is(err, zmq.ErrProtocol) {
		s.Stats.Malformed.Add(1)
	}
	first := s.failure == ""
	if first {
		s.Stats.Disconnects.Add(1)
		if s.begun {
			s.rank.Worker.Doubt() // a process that dies closes all of its connections
		}
	}
	if failure := err.Error(); failure != s.failure {
		s.log.Warn("KV events do not come; trying again and again", "endpoint", s.endpoint, "error", err)
		s.failure = failure
	}
	s.locked(func() {
		switch {
		case !s.begun:
			s.begun = true
			s.begin()
		case first:
			s.suspect(false)
		}
	})
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
