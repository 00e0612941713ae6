package ingest

import (
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/zmq"
)

// take handles one message of the subscription.
func (s *Stream) take(msg zmq.Message) {
	s.quiet = time.Now()
	if s.heard && msg.Seq <= s.live {
		s.restarted(msg)
		return
	}
	s.live, s.heard = msg.Seq, true
	s.unmute()
	s.receive(msg)
}

// receive applies a message, or keeps it until the replay under way has ended.
// Before the first answer of a history it does both: what the rank tells from
// now on is known already, and is applied again behind what the replay brings.
func (s *Stream) receive(msg zmq.Message) {
	if s.unproven && s.asking == nil { // from here on what is restored must be known to be right
		s.ask(askProof)
	}
	a := s.asking
	waits := a != nil && (a.kind == askHistory || s.held.any() || s.inDoubt() || s.unproven)
	if waits && !s.held.add(msg, s.m.cfg.HoldBytes) {
		s.Stats.Lost.Add(uint64(len(s.held.messages)))
		s.held.drop()
		s.giveUp(errOverflow)
		waits = false
	}
	if !waits || s.asking == nil || a.kind == askHistory && !a.answered {
		s.place(msg)
	}
}

// place applies a message in its order.
func (s *Stream) place(msg zmq.Message) {
	switch {
	case !s.joined:
		s.reach(msg.Seq)
	case msg.Seq < s.next: // a replay has brought it already
		s.Stats.Duplicates.Add(1)
		if msg.Seq+1 == s.next && !s.isLast(msg) {
			s.restarted(msg)
		}
		return
	case msg.Seq > s.next:
		if s.gap(msg) {
			return
		}
	}
	s.apply(msg, true)
	if s.inDoubt() && s.asking == nil { // the number that was expected
		s.setState(s.settled())
	}
	if s.orphans && s.complete && s.asking == nil && time.Since(s.resynced) >= s.wait {
		s.log.Warn("KV events name a parent that was never stored; starting over", "sequence", msg.Seq)
		s.resync()
	}
}

// gap asks for the messages before one that came too early, and reports whether
// that one must wait for them. Where no replay can be had, what the rank held is
// dropped.
func (s *Stream) gap(came zmq.Message) (waits bool) {
	if s.Stats.State() == Replaying { // its history will bring what is missing
		s.reach(came.Seq)
		return false
	}
	s.Stats.Gaps.Add(1)
	if s.replayAt != "" && s.Stats.State() != Degraded {
		if s.asking == nil || s.asking.kind != askProof {
			s.ask(askProof)
		}
		s.setState(Unproven)
		s.receive(came)
		return true
	}
	s.Stats.Lost.Add(came.Seq - s.next)
	s.degrade()
	s.reach(came.Seq)
	return false
}

// restarted starts over: within one subscription sequence numbers only grow,
// so a lower one is a new process with an empty cache.
func (s *Stream) restarted(msg zmq.Message) {
	s.log.Info("KV events are another process's; the worker restarted", "next", s.next, "came", msg.Seq)
	s.stranger()
	s.live, s.heard = msg.Seq, true
	s.resync()
	s.receive(msg)
}

// stranger notes that another process publishes.
func (s *Stream) stranger() {
	s.Stats.Restarts.Add(1)
	s.rank.Worker.Doubt()
	if s.m.cfg.OnRestart != nil {
		s.m.cfg.OnRestart(s.rank)
	}
}

// suspect is for a connection that was lost or made again: the process may be
// another one until its replay shows that it is not. Where it offers none, the
// next message must have the number that is expected.
func (s *Stream) suspect(connected bool) {
	if s.mute.on || (!s.joined && s.asking == nil) {
		return
	}
	known := s.unproven || s.Stats.State() == Live || s.Stats.State() == Unproven
	switch {
	case s.replayAt == "":
		s.rank.SetDoubt(worker.DoubtProcess)
	case known:
		s.drop()
		s.held.drop() // of the connection before
		s.setState(Unproven)
		s.rank.SetDoubt(worker.DoubtProcess)
		if connected {
			s.ask(askProof)
		}
	case connected: // too little is known to be worth a proof
		s.resync()
	default:
		s.rank.SetDoubt(worker.DoubtProcess)
	}
}

// inDoubt reports whether something must be proved before what the rank holds
// is credited.
func (s *Stream) inDoubt() bool { return s.rank.Doubt() != worker.NoDoubt }

// settled is the state of a rank that is followed and in no doubt.
func (s *Stream) settled() State {
	if s.replayAt == "" {
		return Degraded
	}
	return Live
}

// isLast reports whether msg has the payload that was applied last.
func (s *Stream) isLast(msg zmq.Message) bool { return s.digest(msg) == s.last }

// digest is a hash of a message's payload under the index's key, which a
// snapshot keeps.
func (s *Stream) digest(msg zmq.Message) uint64 { return uint64(s.m.index.Digest(msg.Payload)) }

// reach makes seq the next message. Where others are missing before it, what
// the rank held cannot be told from what it has dropped since.
func (s *Stream) reach(seq uint64) {
	if s.joined && s.next < seq {
		s.lose()
		s.complete = false
	}
	s.next, s.joined = max(s.next, seq), true
}

// degrade goes on without the rank's history.
func (s *Stream) degrade() {
	s.lose()
	s.complete, s.joined, s.unproven, s.short, s.next = false, false, false, false, 0
	s.setState(Degraded)
}

// lose clears the content, which then belongs to no position.
func (s *Stream) lose() {
	s.clear()
	s.mark, s.empty = position{}, true
}

// backOff lets more time pass before the next resync than before this one.
func (s *Stream) backOff() {
	s.wait = min(2*s.wait, maxBackOff*s.m.cfg.ResyncEvery)
}
