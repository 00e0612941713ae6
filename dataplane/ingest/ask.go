package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/zmq"
)

// askKind says what a replay is asked for.
type askKind uint8

const (
	// askHistory is for all that the rank still keeps, to learn it from nothing.
	askHistory askKind = iota
	// askProof is for the message applied last and those behind it: they show that
	// the process is the known one, and bring what was missed.
	askProof
	// askSurvey is for all that the rank still keeps, to see whether to learn it
	// anew is worth dropping what is known.
	askSurvey
)

var (
	// errHole is a replay that lacks messages.
	errHole = errors.New("ingest: the replay lacks messages")
	// errGone is a replay that begins behind the message that it should begin with.
	errGone = errors.New("ingest: the rank no longer keeps the messages")
	// errStranger is a replay by another process than the one that is known.
	errStranger = errors.New("ingest: the replay is another process's")
	// errReplaced ends a replay that nobody waits for any more.
	errReplaced = errors.New("ingest: the replay is no longer wanted")
	// errOverflow is a replay that took so long that too many live messages waited for it.
	errOverflow = errors.New("ingest: too many messages waited for a replay")
)

const (
	// proofStall and proofTimeout bound a proof, during which live messages may
	// wait: it is short mostly, and engines look at requests every 100 ms at worst.
	proofStall   = 2 * time.Second
	proofTimeout = 5 * time.Second
	// holeRetries is how often a replay with a hole is asked for again, first after
	// holePause: ROUTER sockets drop what a full queue has no room for.
	holeRetries = 2
	holePause   = 250 * time.Millisecond
	// maxBackOff bounds the time between resyncs that do not help, in ResyncEvery:
	// 5 minutes by default.
	maxBackOff = 32
	// maxCheckBackOff bounds the time between checks that are not answered, as a
	// power of two: 20 s by default.
	maxCheckBackOff = 2
)

// ask is a replay under way. All but cancel and kind is guarded by Stream.turn.
type ask struct {
	kind    askKind
	cancel  context.CancelFunc
	attempt int

	from     uint64 // first message asked for
	before   uint64 // Stream.next when the first attempt began
	last     uint64 // of a proof: hash of the payload that message from must have
	met      bool   // of a proof: it had, or there is nothing to compare
	brought  bool   // of a proof: it had messages that did not come live
	answered bool   // of a history: its first message has come, and content is as old as that
	fresh    bool   // no message of this attempt has come
	first    uint64 // of a survey: message behind the last hole
	upto     uint64 // of a survey: message that comes next
	holed    bool   // of a survey: it had a hole
}

// ask begins a replay in place of the one under way. It does not wait for it.
func (s *Stream) ask(kind askKind) {
	s.drop()
	a := &ask{kind: kind, before: s.next}
	var ctx context.Context
	ctx, a.cancel = context.WithCancel(s.ctx)
	s.asking = a
	s.asks.Go(func() {
		defer a.cancel()
		s.pursue(ctx, a)
	})
}

// drop ends the replay under way, whatever has come of it.
func (s *Stream) drop() {
	if s.asking != nil {
		s.asking.cancel()
		s.asking = nil
	}
}

// pursue asks until there is nothing more to ask for. It runs on a goroutine of
// its own.
func (s *Stream) pursue(ctx context.Context, a *ask) {
	for {
		err := s.attempt(ctx, a)
		pause := time.Duration(0)
		s.locked(func() {
			if s.asking == a && s.ctx.Err() == nil {
				pause = s.conclude(a, err)
			}
		})
		if pause == 0 {
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// attempt is one replay.
func (s *Stream) attempt(ctx context.Context, a *ask) error {
	limit, stall := s.m.cfg.ReplayTimeout, s.m.cfg.ReplayTimeout
	var err error
	s.locked(func() {
		switch {
		case s.asking != a:
			err = errReplaced
		case !s.allowed.take(time.Now()):
			err = errOften
		default:
			s.prepare(a)
			if a.kind == askProof {
				stall = min(proofStall, stall)
				if !s.unproven {
					limit = min(proofTimeout, limit)
				}
			}
		}
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stalled := time.AfterFunc(stall, cancel)
	defer stalled.Stop()
	_, err = s.m.replay(ctx, s.replayAt, a.from, func(msg zmq.Message) error {
		stalled.Reset(stall)
		s.turn.Lock()
		defer s.turn.Unlock()
		if s.asking != a || ctx.Err() != nil {
			return errReplaced
		}
		return s.answer(a, msg)
	})
	return err
}

// prepare notes where an attempt begins.
func (s *Stream) prepare(a *ask) {
	a.fresh, a.first, a.upto, a.holed = true, 0, 0, false
	if a.kind == askProof {
		a.from, a.last = s.next-min(s.next, 1), s.last
		a.met = a.from == s.next // at 0 there is nothing to compare
	}
}

// answer takes in one message of a replay.
func (s *Stream) answer(a *ask, msg zmq.Message) error {
	fresh := a.fresh
	a.fresh = false
	switch a.kind {
	case askProof:
		return s.answerProof(a, msg)
	case askSurvey:
		if fresh || msg.Seq != a.upto {
			a.first, a.holed = msg.Seq, !fresh
		}
		a.upto = msg.Seq + 1
		return nil
	default:
		if fresh { // what is known from here on is as old as the replay
			a.answered = true
			s.lose()
			s.joined, s.complete, s.next = false, msg.Seq == 0, 0
			s.rank.SetDoubt(worker.DoubtIndex)
		}
		return s.answerHistory(a, msg)
	}
}

// answerProof compares the first message and applies those that have not come
// live meanwhile.
func (s *Stream) answerProof(a *ask, msg zmq.Message) error {
	switch {
	case !a.met && msg.Seq == a.from && s.digest(msg) == a.last:
		a.met = true
	case !a.met && msg.Seq == a.from:
		return errStranger
	case !a.met:
		return errGone
	case msg.Seq == s.next:
		a.brought = true
		s.Stats.Replayed.Add(1)
		s.apply(msg, false)
	case msg.Seq > s.next:
		return errHole
	}
	return nil
}

// answerHistory applies a message. A hole is believed only when it is there each
// time: what comes behind it is known then.
func (s *Stream) answerHistory(a *ask, msg zmq.Message) error {
	if s.joined && msg.Seq > s.next {
		if a.attempt < holeRetries {
			return errHole
		}
		s.Stats.Lost.Add(msg.Seq - s.next)
		s.short = true
	}
	if s.joined && msg.Seq < s.next {
		return nil
	}
	s.reach(msg.Seq)
	s.Stats.Replayed.Add(1)
	s.apply(msg, false)
	return nil
}
