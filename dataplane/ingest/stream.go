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
)

// Stream subscribes to the KV events of one rank and hands them to its follower.
type Stream struct {
	Stats Stats

	rank     *worker.Rank
	process  uint64 // as in worker.Info
	sub      Subscriber
	endpoint string
	topic    string
	log      *slog.Logger
	ctx      context.Context // of run; it begins before run does, so that stop needs no order
	cancel   context.CancelFunc
	done     chan struct{}

	begun   bool   // the follower has begun; of the subscription's callbacks
	failure string // why there is no connection, as logged; of the subscription's callbacks

	// turn is held while a message, a tick, an answer to a replay or its end is handled, and by a
	// snapshot while it copies content and position. It is never held across I/O. Manager.mu and
	// content.mu may be taken under it.
	turn     sync.Mutex
	follower follower // guarded by turn
	content  *content
}

func newStream(m *Manager, rank *worker.Rank, info *worker.Info, i int) *Stream {
	s := &Stream{
		rank: rank, process: info.Process, sub: m.sub, endpoint: info.Events.Endpoints[i], topic: info.Events.Topic,
		log: m.cfg.Log.With("rank", rank.ID()), done: make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.content = &content{
		index: m.index, rank: rank, stats: &s.Stats, model: info.Model(), log: s.log, full: &m.full, publish: m.publish, onClear: m.cfg.OnClear,
		holders: make(map[int]radix.Worker),
	}
	if info.Events.BlockSize > 0 { // known before the first event
		s.content.shapes = []Shape{{Model: s.content.model, BlockSize: info.Events.BlockSize}}
	}
	s.follower = follower{
		sequence: sequence{index: m.index, empty: true},
		schedule: schedule{cfg: &m.cfg, wait: m.cfg.ResyncEvery, quiet: time.Now()},
		content:  s.content, rank: rank, stats: &s.Stats, onRestart: m.cfg.OnRestart, endpoint: s.endpoint, log: s.log,
	}
	s.follower.recovery = &recovery{f: &s.follower, replay: m.replay, ctx: s.ctx, turn: &s.turn}
	if i < len(info.Events.Replays) {
		s.follower.recovery.endpoint = info.Events.Replays[i]
	}
	return s
}

func (s *Stream) start() { go s.run(s.ctx) }

// run follows the rank until ctx ends. It reads and handles messages on its goroutine; a replay
// has a goroutine of its own, so that reading never waits.
func (s *Stream) run(ctx context.Context) {
	defer close(s.done)
	defer s.forget()
	defer s.follower.recovery.running.Wait()
	defer s.cancel()
	cfg := s.follower.cfg
	err := s.sub(ctx, zmq.Subscription{
		Endpoint: s.endpoint, Topic: s.topic,
		OnMessage:    func(msg zmq.Message) { s.locked(func(f *follower) { f.take(msg) }) },
		OnMalformed:  func(int) { s.Stats.Malformed.Add(1) },
		OnConnect:    s.connected,
		OnDisconnect: s.disconnected,
		OnTick:       func() { s.locked((*follower).check) },
		Every:        cfg.TailCheck,
		Pace:         s.pace,
	})
	if err != nil {
		s.log.Error("cannot subscribe to KV events", "endpoint", s.endpoint, "error", err)
		s.locked(func(f *follower) { f.setState(Degraded) })
	}
}

// locked calls fn with the follower under turn.
func (s *Stream) locked(fn func(f *follower)) {
	s.turn.Lock()
	defer s.turn.Unlock()
	fn(&s.follower)
}

// pace returns the time until the next check.
func (s *Stream) pace() time.Duration {
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.follower.pause(&s.rank.Trust)
}

// connected begins to follow the rank, or finds out whether it is still the same process and
// which events were missed without a connection.
func (s *Stream) connected() {
	if s.failure != "" {
		s.log.Info("following KV events", "endpoint", s.endpoint)
		s.failure = ""
	}
	s.locked(func(f *follower) {
		if s.begun {
			f.reconnected(true)
			return
		}
		s.begun = true
		f.begin()
	})
}

// disconnected logs once why there is no connection. The replay needs none, so the rank is
// followed by it.
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
		s.log.Warn("no KV events: cannot connect; trying again", "endpoint", s.endpoint, "error", err)
		s.failure = failure
	}
	s.locked(func(f *follower) {
		switch {
		case !s.begun:
			s.begun = true
			f.begin()
		case first:
			f.reconnected(false)
		}
	})
}

// forget takes the rank out of the index.
func (s *Stream) forget() {
	s.locked(func(f *follower) {
		f.mark = position{}
		s.content.leave()
	})
}

// Blocks returns the number of block copies that the rank holds by its events.
func (s *Stream) Blocks() int {
	groups, _ := s.content.view()
	total := 0
	for _, id := range groups {
		total += s.content.index.Blocks(id)
	}
	return total
}
