package ingest

import (
	"log/slog"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/zmq"
)

// follower keeps the index equal to one rank's cache: it applies messages in order and decides
// when the rank must be replayed or learnt again. Stream.turn guards it.
type follower struct {
	sequence
	schedule
	content  *content
	recovery *recovery
	silence  silence

	rank      *worker.Rank
	stats     *Stats
	onRestart func(*worker.Rank) // may be nil
	endpoint  string
	log       *slog.Logger

	unverified bool // the content is a snapshot's, and no replay has confirmed it yet
	truncated  bool // the last history had a hole, and the content ends there

	aside uint64 // EventCheck.Times at the last resync because of it
}

// begin learns the rank. Restored content serves until the rank has answered: its worst effect
// is a worse choice. The message before the snapshot's position identifies the process: it has
// a time stamp, so no other process has an equal one.
func (f *follower) begin() {
	if f.unverified {
		f.recovery.ask(askProof)
		return
	}
	f.resync()
}

// take handles one message of the subscription.
func (f *follower) take(msg zmq.Message) {
	f.quiet = time.Now()
	if f.heard && msg.Seq <= f.live {
		if f.repeats(msg) || f.recovery.held.repeats(msg) {
			f.stats.Duplicates.Add(1)
			return
		}
		f.restarted(msg)
		return
	}
	f.live, f.heard = msg.Seq, true
	f.silence.end(f.stats.Batches.Load(), f.rank.Count.Stored.Load())
	f.receive(msg)
}

// receive applies a message, or keeps it until the replay under way has ended. Before the first
// answer of a history it does both: the message counts at once, and is applied again after the
// replayed ones.
func (f *follower) receive(msg zmq.Message) {
	r := f.recovery
	if f.unverified && r.asking == nil { // events apply to confirmed content only
		r.ask(askProof)
	}
	a := r.asking
	waits := a != nil && (a.kind == askHistory || r.held.any() || f.inDoubt() || f.unverified)
	if waits && !r.held.add(msg, f.cfg.HoldBytes) {
		f.stats.Lost.Add(uint64(len(r.held.messages)))
		r.held.drop()
		r.giveUp(errOverflow)
		waits = false
	}
	if !waits || r.asking == nil || a.kind == askHistory && !a.answered {
		f.order(msg)
	}
}

// order applies a message in its order.
func (f *follower) order(msg zmq.Message) {
	switch {
	case !f.joined:
		f.reach(msg.Seq)
	case msg.Seq < f.next: // a replay has brought it already
		f.stats.Duplicates.Add(1)
		if msg.Seq+1 == f.next && !f.isLast(msg) {
			f.restarted(msg)
		}
		return
	case msg.Seq > f.next:
		if f.gap(msg) {
			return
		}
	}
	f.apply(msg, true)
	if f.inDoubt() && f.recovery.asking == nil { // the expected number
		f.setState(f.settled())
	}
	if f.content.orphans && f.complete && f.recovery.asking == nil && f.mayResync(time.Now()) {
		f.log.Warn("KV events name a parent that was never stored; starting over", "sequence", msg.Seq)
		f.resync()
	}
}

// apply applies one message's events.
func (f *follower) apply(msg zmq.Message, live bool) {
	f.applied(msg)
	now := time.Now()
	readable := f.content.apply(msg.Payload, live, now)
	// Whoever reads the number finds the batch in the index.
	f.stats.Batches.Add(1)
	f.stats.Sequence.Store(msg.Seq)
	if !readable {
		return
	}
	f.rank.Trust.Confirmed(now)
	if batch := &f.content.batch; live && batch.Time > 0 { // a replayed batch is old
		f.stats.delayed(now, batch.Time)
	}
	if live && f.complete && f.rank.Exact() {
		if r, ok := f.content.poolContent(); ok {
			f.rank.Load.CachedPages(now, r)
		}
	}
	f.content.batch.Trim()
}

// gap asks for the messages before an early one, and reports whether the early one must wait for
// them. Without a replay the content is dropped.
func (f *follower) gap(msg zmq.Message) (waits bool) {
	if f.stats.State() == Replaying { // its history brings the missing messages
		f.reach(msg.Seq)
		return false
	}
	f.stats.Gaps.Add(1)
	if r := f.recovery; r.endpoint != "" && f.stats.State() != Degraded {
		if r.asking == nil || r.asking.kind != askProof {
			r.ask(askProof)
		}
		f.setState(Unverified)
		f.receive(msg)
		return true
	}
	f.stats.Lost.Add(msg.Seq - f.next)
	f.degrade()
	f.reach(msg.Seq)
	return false
}

// restarted starts over: within one subscription sequence numbers only grow, so a lower one
// means a new process with an empty cache.
func (f *follower) restarted(msg zmq.Message) {
	f.log.Info("KV events are another process's; the worker restarted", "next", f.next, "came", msg.Seq)
	f.rank.OtherProcess(time.Now())
	f.processChanged()
	f.live, f.heard = msg.Seq, true
	f.resync()
	f.receive(msg)
}

// processChanged notes that another process publishes.
func (f *follower) processChanged() {
	f.stats.Restarts.Add(1)
	if f.rank.Events.Fault() != worker.NoEventFault { // its numbers mean nothing
		return
	}
	f.rank.Worker.Doubt()
	// Where a process names itself, the check of that doubt finds out whether it is another one.
	if info := f.rank.Worker.Info(); f.onRestart != nil && (info == nil || info.Process == 0) {
		f.onRestart(f.rank)
	}
}

// reconnected takes a lost or a new connection: the process may be another one until its replay
// shows that it is not. Without a replay the next message must have the expected number.
func (f *follower) reconnected(connected bool) {
	r := f.recovery
	learns := connected && r.endpoint != ""
	if f.silence.found || !f.joined && r.asking == nil && !learns {
		return
	}
	f.failed = 0 // of the connection before
	known := f.unverified || f.stats.State() == Live || f.stats.State() == Unverified
	switch {
	case r.endpoint == "":
		f.rank.SetDoubt(worker.DoubtProcess)
	case known:
		r.drop()
		r.held.drop() // of the connection before
		f.setState(Unverified)
		f.rank.SetDoubt(worker.DoubtProcess)
		if connected {
			r.ask(askProof)
		}
	case connected: // too little is known to be worth a proof
		f.resync()
	default:
		f.rank.SetDoubt(worker.DoubtProcess)
	}
}

// check runs on a timer and looks for events that no live message reveals.
func (f *follower) check() {
	now := time.Now()
	r, st := f.recovery, f.stats.State()
	if f.silence.observe(now, f.cfg.TailCheck, f.stats.Batches.Load(), f.rank.Count.Stored.Load()) {
		if r.endpoint != "" && (st == Live || st == Unverified) {
			if r.asking == nil {
				r.ask(askProof)
			}
			f.silence.asked = r.asking.kind == askProof // its end decides
		} else {
			f.silent()
		}
	}
	if n := f.rank.Events.Times(); n != f.aside {
		f.aside = n
		if r.endpoint != "" || f.rank.Events.Fault() == worker.EventsTellMore {
			f.resync() // a replay, or the next events, may be better than the content
			return
		}
	}
	if r.endpoint == "" && f.rank.Doubt() == worker.DoubtProcess {
		f.degrade() // another process would have been found out by now
	}
	if f.silence.found || r.endpoint == "" || r.asking != nil {
		return
	}
	again := f.mayResync(now)
	switch {
	case f.unverified:
		if again {
			r.ask(askProof)
		}
	case st != Live && st != Unverified, f.truncated && again:
		if again {
			r.ask(askSurvey)
		}
	case !now.Before(f.due(&f.rank.Trust)):
		// A dropped message leaves a gap only when the next one comes, which a quiet rank may
		// never send.
		f.quiet, f.checked = now, now
		r.ask(askProof)
	}
}

// silent drops the content of a rank that computes prompts and publishes no events.
func (f *follower) silent() {
	f.log.Warn("worker computes prompts and publishes no KV events of them; routing by the requests sent to it until events come",
		"endpoint", f.endpoint)
	f.silence.found = true
	f.stats.Mutes.Add(1)
	f.degrade()
}

// resync drops the content and learns the rank again by a replay. Without a replay it follows
// the rank from now: earlier blocks stay unknown, which costs hits and never correctness.
func (f *follower) resync() {
	r := f.recovery
	r.drop()
	r.held.drop()
	f.degrade()
	f.resynced, f.content.orphans = time.Now(), false
	f.stats.Resyncs.Add(1)
	if r.endpoint == "" {
		return
	}
	f.setState(Replaying)
	r.ask(askHistory)
}

// inDoubt reports whether the content must be proved before it is credited.
func (f *follower) inDoubt() bool { return f.rank.Doubt() != worker.NoDoubt }

// settled is the state of a rank that is followed without a doubt.
func (f *follower) settled() State {
	if f.recovery.endpoint == "" {
		return Degraded
	}
	return Live
}

// reach makes seq the next message. Where messages before it are missing, the content may have
// blocks that the rank has removed since.
func (f *follower) reach(seq uint64) {
	if f.missed(seq) {
		f.lose()
		f.complete = false
	}
}

// degrade follows the rank without its history. The rank is said to be inexact before its content
// goes: a request between the two would take the exact index for empty, and leave its worker.
func (f *follower) degrade() {
	f.setState(Degraded)
	f.lose()
	f.restart(false)
	f.unverified, f.truncated = false, false
}

// lose drops the content.
func (f *follower) lose() {
	f.content.clear()
	f.dropped()
}

// setState publishes how well the rank is known.
func (f *follower) setState(st State) {
	f.stats.setState(st)
	if st == Unverified {
		f.rank.SetDoubt(max(f.rank.Doubt(), worker.DoubtIndex))
		return
	}
	f.rank.SetExact(st == Live)
	f.rank.SetDoubt(worker.NoDoubt)
}

// confirmed notes that the rank has just shown that its content is right.
func (f *follower) confirmed() { f.rank.Trust.Confirmed(time.Now()) }
