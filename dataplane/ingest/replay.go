package ingest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/zmq"
)

// askKind is the purpose of a replay.
type askKind uint8

const (
	// askHistory asks for all messages that the rank keeps, to learn it from nothing.
	askHistory askKind = iota
	// askProof asks for the last applied message and the later ones: they show that the process
	// is the known one, and bring missed events.
	askProof
	// askSurvey asks for all messages that the rank keeps, to see whether learning it again is
	// worth dropping the content.
	askSurvey
)

var (
	// errHole is a replay that lacks messages.
	errHole = errors.New("ingest: the replay lacks messages")
	// errGone is a replay that begins after the message that it should begin with.
	errGone = errors.New("ingest: the rank no longer keeps the messages")
	// errOtherProcess is a replay of another process than the known one.
	errOtherProcess = errors.New("ingest: the replay is another process's")
	// errReplaced ends a replay that another one has replaced.
	errReplaced = errors.New("ingest: the replay is no longer wanted")
	// errOverflow is a replay that took so long that too many live messages waited for it.
	errOverflow = errors.New("ingest: too many messages waited for a replay")
)

const (
	// proofStall and proofTimeout bound a proof, during which live messages may wait. Mostly it
	// is short; an engine looks at replay requests every 100 ms at worst.
	proofStall   = 2 * time.Second
	proofTimeout = 5 * time.Second
	// holeRetries is how often a replay with a hole is asked for again, first after holePause:
	// ROUTER sockets drop messages that a full queue has no room for.
	holeRetries = 2
	holePause   = 250 * time.Millisecond
)

// recovery replays a rank's messages for its follower. Stream.turn guards its fields but the
// fixed ones.
type recovery struct {
	f        *follower
	replay   Replayer        // fixed
	endpoint string          // "" when the worker offers no replay; fixed
	ctx      context.Context // of the stream; fixed
	turn     *sync.Mutex     // of the stream
	running  sync.WaitGroup

	asking *ask    // the replay under way; nil: there is none
	held   backlog // live messages that wait for its end
	limit  replayLimit
}

// ask is a replay under way. Stream.turn guards all fields but cancel and kind.
type ask struct {
	kind    askKind
	cancel  context.CancelFunc
	attempt int

	from     uint64 // first message asked for
	before   uint64 // sequence.next when the first attempt began
	last     uint64 // of a proof: digest of the payload that message from must have
	met      bool   // of a proof: it had, or there is nothing to compare
	brought  bool   // of a proof: it had messages that did not come live
	answered bool   // of a history: the content is as old as its first message
	fresh    bool   // no message of this attempt yet
	first    uint64 // of a survey: message after the last hole
	upto     uint64 // of a survey: message that comes next
	holed    bool   // of a survey: it had a hole
}

// ask begins a replay in place of the one under way. It does not wait for it.
func (r *recovery) ask(kind askKind) {
	r.drop()
	a := &ask{kind: kind, before: r.f.next}
	var ctx context.Context
	ctx, a.cancel = context.WithCancel(r.ctx)
	r.asking = a
	r.running.Go(func() {
		defer a.cancel()
		r.pursue(ctx, a)
	})
}

// drop cancels the replay under way.
func (r *recovery) drop() {
	if r.asking != nil {
		r.asking.cancel()
		r.asking = nil
	}
}

// pursue replays until there is nothing more to ask for. It has a goroutine of its own.
func (r *recovery) pursue(ctx context.Context, a *ask) {
	for {
		err := r.attempt(ctx, a)
		pause := time.Duration(0)
		r.turn.Lock()
		if r.asking == a && r.ctx.Err() == nil {
			pause = r.conclude(a, err)
		}
		r.turn.Unlock()
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
func (r *recovery) attempt(ctx context.Context, a *ask) error {
	limit, stall, err := r.prepare(a)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stalled := time.AfterFunc(stall, cancel)
	defer stalled.Stop()
	_, err = r.replay(ctx, r.endpoint, a.from, func(msg zmq.Message) error {
		stalled.Reset(stall)
		r.turn.Lock()
		defer r.turn.Unlock()
		if r.asking != a || ctx.Err() != nil {
			return errReplaced
		}
		return r.answer(a, msg)
	})
	return err
}

// prepare notes where an attempt begins, and returns how long it may take as a whole and
// without a message.
func (r *recovery) prepare(a *ask) (limit, stall time.Duration, err error) {
	r.turn.Lock()
	defer r.turn.Unlock()
	f := r.f
	limit, stall = f.cfg.ReplayTimeout, f.cfg.ReplayTimeout
	switch {
	case r.asking != a:
		return 0, 0, errReplaced
	case !r.limit.take(time.Now()):
		return 0, 0, errReplayRate
	}
	a.fresh, a.first, a.upto, a.holed = true, 0, 0, false
	if a.kind == askProof {
		a.from, a.last = f.next-min(f.next, 1), f.last
		a.met = a.from == f.next // at 0 there is nothing to compare
		stall = min(proofStall, stall)
		if !f.unverified {
			limit = min(proofTimeout, limit)
		}
	}
	return limit, stall, nil
}

// answer takes in one message of a replay.
func (r *recovery) answer(a *ask, msg zmq.Message) error {
	fresh := a.fresh
	a.fresh = false
	switch a.kind {
	case askProof:
		return r.answerProof(a, msg)
	case askSurvey:
		if fresh || msg.Seq != a.upto {
			a.first, a.holed = msg.Seq, !fresh
		}
		a.upto = msg.Seq + 1
		return nil
	default:
		if fresh { // from here on the content is as old as the replay
			a.answered = true
			r.f.lose()
			r.f.restart(msg.Seq == 0)
			r.f.rank.SetDoubt(worker.DoubtIndex)
		}
		return r.answerHistory(a, msg)
	}
}

// answerProof compares the first message and applies the ones that have not come live meanwhile.
func (r *recovery) answerProof(a *ask, msg zmq.Message) error {
	f := r.f
	switch {
	case !a.met && msg.Seq == a.from && f.digest(msg) == a.last:
		a.met = true
	case !a.met && msg.Seq == a.from:
		return errOtherProcess
	case !a.met:
		return errGone
	case msg.Seq == f.next:
		a.brought = true
		f.stats.Replayed.Add(1)
		f.apply(msg, false)
	case msg.Seq > f.next:
		return errHole
	}
	return nil
}

// answerHistory applies a message. A hole is accepted only when each attempt has it: the content
// then begins after it.
func (r *recovery) answerHistory(a *ask, msg zmq.Message) error {
	f := r.f
	if f.joined && msg.Seq > f.next {
		if a.attempt < holeRetries {
			return errHole
		}
		f.stats.Lost.Add(msg.Seq - f.next)
		f.truncated = true
		f.rank.LostEvents(time.Now())
		f.aside = f.rank.Events.Times()
	}
	if f.joined && msg.Seq < f.next {
		return nil
	}
	f.reach(msg.Seq)
	f.stats.Replayed.Add(1)
	f.apply(msg, false)
	return nil
}
