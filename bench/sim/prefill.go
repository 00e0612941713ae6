package sim

import (
	"fmt"
	"slices"
	"time"
)

// awaitDecode parks r until a decode worker connects to its room.
func (l *legScheduler) awaitDecode(r *request) {
	lg := r.leg
	began := time.Now()
	lg.late = time.AfterFunc(l.rank.cfg.real(l.rank.cfg.BootstrapTimeout), func() {
		l.rank.do(func() { l.expire(r, began) })
	})
	ok := l.table.addLeg(roomKey{l.rank.id, lg.room}, waitingLeg{
		connected: func(j *decodeConn) { l.rank.do(func() { l.decodeConnected(r, j) }) },
		aborted:   func() { l.rank.do(func() { l.decodeAborted(r) }) },
	})
	if !ok {
		lg.late.Stop()
		l.remove(r)
		l.rank.finish(r, legProblem("Prefill bootstrap", r, "req", "the room is in use"))
	}
}

// decodeConnected queues r for prefill: its decode worker has pages for it.
func (l *legScheduler) decodeConnected(r *request, j *decodeConn) {
	if r.leg.state == legParked && slices.Contains(l.list, r) {
		r.leg.late.Stop()
		r.leg.conn, r.leg.state = j, legComputing
		l.rank.waiting = append(l.rank.waiting, r)
	}
}

// expire ends a leg without a decode worker.
func (l *legScheduler) expire(r *request, began time.Time) {
	if r.leg.state == legParked {
		waited := float64(time.Since(began).Seconds()) * l.rank.cfg.TimeScale
		l.failPrefill(r, "Prefill bootstrap", fmt.Sprintf(
			"Request %d timed out after %.1fs in KVPoll.Bootstrapping", r.leg.room, waited))
	}
}

// decodeAborted ends a leg after its decode worker has given up. A leg that is being computed
// is computed to its end, as in SGLang, and fails when it is sent.
func (l *legScheduler) decodeAborted(r *request) {
	if r.leg.state != legComputing {
		l.failPrefill(r, "Prefill transfer", "Aborted by decode-side abort notification.")
	}
}

// abortPrefill ends a leg by /abort_request. As in SGLang, its decode worker is not told: a
// client that aborts one leg has to abort the other.
func (l *legScheduler) abortPrefill(r *request) {
	if r.leg.state == legComputing {
		l.leaveRoom(r) // Rank.abort removes it from its queue.
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
	if l.leaveRoom(r) {
		l.rank.finish(r, legProblem(stage, r, "req", why))
	}
}

// leaveRoom removes r from its room.
func (l *legScheduler) leaveRoom(r *request) bool {
	r.leg.late.Stop()
	l.table.removeLeg(roomKey{l.rank.id, r.leg.room})
	return l.remove(r)
}

// send adds a batch's part of r's prompt to the link: chunks are sent while the next ones are
// computed.
func (l *legScheduler) send(r *request) {
	if r.leg == nil {
		return
	}
	n := r.computed - min(r.leg.shipped, r.computed)
	if r.leg.conn != nil && r.leg.shipped == 0 {
		n = max(0, n-r.leg.conn.cached) // In the decode worker's own cache.
	}
	r.leg.shipped = r.computed
	d := float64(l.rank.cfg.Service.transfer(n)) * l.rank.faults.transferSlowdown()
	l.linkFree = max(l.linkFree, l.rank.clock.now) + time.Duration(d)
}

// handOver begins the transfer of a computed prompt. Its pages stay locked until the transfer
// ends.
func (l *legScheduler) handOver(r *request, now time.Time) {
	l.rank.count.generated++
	r.hand(now)
	r.signal()
	l.send(r)
	r.leg.state = legSending
	switch {
	case r.leg.conn.aborted.Load():
		l.decodeAborted(r)
	case !l.rank.faults.stallsTransfer():
		wait := l.linkFree + l.rank.cfg.Service.TransferLatency - l.rank.clock.now
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
	r.leg.conn.kv <- handoff{First: r.leg.first, Cached: r.cached, Prompt: len(r.prompt)}
	l.leaveRoom(r)
	l.rank.finish(r, finishReason{kind: "length", handed: true})
}
