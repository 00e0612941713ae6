package sim

import (
	"fmt"
	"slices"
	"time"
)

// park lets r wait until a decode worker comes to its room.
func (l *legScheduler) park(r *request) {
	lg := r.leg
	began := time.Now()
	lg.late = time.AfterFunc(l.rank.cfg.real(l.rank.cfg.BootstrapTimeout), func() {
		l.rank.do(func() { l.expire(r, began) })
	})
	ok := l.table.addLeg(roomKey{l.rank.id, lg.room}, waitingLeg{
		connected: func(j *decodeConn) { l.rank.do(func() { l.meet(r, j) }) },
		aborted:   func() { l.rank.do(func() { l.forsake(r) }) },
	})
	if !ok {
		lg.late.Stop()
		l.drop(r)
		l.rank.finish(r, legProblem("Prefill bootstrap", r, "req", "the room is in use"))
	}
}

// meet lets r be computed: its decode worker has pages for it.
func (l *legScheduler) meet(r *request, j *decodeConn) {
	if r.leg.state == legParked && slices.Contains(l.list, r) {
		r.leg.late.Stop()
		r.leg.conn, r.leg.state = j, legComputing
		l.rank.waiting = append(l.rank.waiting, r)
	}
}

// expire ends a leg that no decode worker has come for.
func (l *legScheduler) expire(r *request, began time.Time) {
	if r.leg.state == legParked {
		waited := float64(time.Since(began).Seconds()) * l.rank.cfg.TimeScale
		l.failPrefill(r, "Prefill bootstrap", fmt.Sprintf(
			"Request %d timed out after %.1fs in KVPoll.Bootstrapping", r.leg.room, waited))
	}
}

// forsake ends a leg whose decode worker has given up. What is being computed is
// computed to its end, as in SGLang, and fails when it would be sent.
func (l *legScheduler) forsake(r *request) {
	if r.leg.state != legComputing {
		l.failPrefill(r, "Prefill transfer", "Aborted by decode-side abort notification.")
	}
}

// abortPrefill ends a leg by /abort_request. The decode worker is not told, as in
// SGLang: whoever aborts one leg has to abort the other.
func (l *legScheduler) abortPrefill(r *request) {
	if r.leg.state == legComputing {
		l.leave(r) // it is in a queue that abort goes through
		return
	}
	stage := "Prefill bootstrap"
	if r.leg.state == legSending {
		stage = "Prefill transfer"
	}
	l.failPrefill(r, stage, byAbort)
}

// failPrefill ends a leg that no batch holds.
func (l *legScheduler) failPrefill(r *request, stage, why string) {
	if l.leave(r) {
		l.rank.finish(r, legProblem(stage, r, "req", why))
	}
}

// leave takes r out of its room.
func (l *legScheduler) leave(r *request) bool {
	r.leg.late.Stop()
	l.table.removeLeg(roomKey{l.rank.id, r.leg.room})
	return l.drop(r)
}

// send gives the link what a batch has left of r's prompt: chunks travel while the
// next ones are computed.
func (l *legScheduler) send(r *request) {
	if r.leg == nil {
		return
	}
	n := r.computed - min(r.leg.shipped, r.computed)
	if r.leg.conn != nil && r.leg.shipped == 0 {
		n = max(0, n-r.leg.conn.cached) // the decode worker's own cache holds these
	}
	r.leg.shipped = r.computed
	d := float64(l.rank.cfg.Service.transfer(n)) * l.rank.faults.transferSlowdown()
	l.linkFree = max(l.linkFree, l.rank.pace.now) + time.Duration(d)
}

// handOver begins the transfer of a prompt that is computed. Its pages stay locked
// until the transfer ends.
func (l *legScheduler) handOver(r *request, now time.Time) {
	l.rank.count.generated++
	r.hand(now)
	r.signal()
	l.send(r)
	r.leg.state = legSending
	switch {
	case r.leg.conn.aborted.Load():
		l.forsake(r)
	case !l.rank.faults.stallsTransfer():
		wait := l.linkFree + l.rank.cfg.Service.TransferLatency - l.rank.pace.now
		time.AfterFunc(l.rank.cfg.real(wait), func() { l.rank.do(func() { l.delivered(r) }) })
	}
}

// delivered answers both clients: the keys and values have arrived.
func (l *legScheduler) delivered(r *request) {
	if r.leg.state != legSending || !slices.Contains(l.list, r) {
		return
	}
	if r.leg.conn.lost.Load() {
		l.failPrefill(r, "Prefill transfer", "Failed to send kv chunk of the room to the decode instance")
		return
	}
	r.leg.conn.kv <- handoff{first: r.leg.first, cached: r.cached, prompt: len(r.prompt)}
	l.leave(r)
	l.rank.finish(r, finish{kind: "length", handed: true})
}
