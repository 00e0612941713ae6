package sim

import (
	"fmt"
	"slices"
	"time"
)

// park lets r wait until a decode worker comes to its room.
func (k *rank) park(r *request) {
	lg := r.leg
	began := time.Now()
	lg.late = time.AfterFunc(k.cfg.real(k.cfg.BootstrapTimeout), func() {
		k.do(func() { k.expire(r, began) })
	})
	ok := k.side.desk.sit(meeting{k.id, lg.room}, seat{
		met:  func(j *join) { k.do(func() { k.meet(r, j) }) },
		left: func() { k.do(func() { k.forsake(r) }) },
	})
	if !ok {
		lg.late.Stop()
		k.drop(r)
		k.finish(r, legProblem("Prefill bootstrap", r, "req", "the room is in use"))
	}
}

// meet lets r be computed: its decode worker has pages for it.
func (k *rank) meet(r *request, j *join) {
	if r.leg.state == legParked && slices.Contains(k.legs, r) {
		r.leg.late.Stop()
		r.leg.join, r.leg.state = j, legComputing
		k.waiting = append(k.waiting, r)
	}
}

// expire ends a leg that no decode worker has come for.
func (k *rank) expire(r *request, began time.Time) {
	if r.leg.state == legParked {
		waited := float64(time.Since(began).Seconds()) * k.cfg.TimeScale
		k.failPrefill(r, "Prefill bootstrap", fmt.Sprintf(
			"Request %d timed out after %.1fs in KVPoll.Bootstrapping", r.leg.room, waited))
	}
}

// forsake ends a leg whose decode worker has given up. What is being computed is
// computed to its end, as in SGLang, and fails when it would be sent.
func (k *rank) forsake(r *request) {
	if r.leg.state != legComputing {
		k.failPrefill(r, "Prefill transfer", "Aborted by decode-side abort notification.")
	}
}

// abortPrefill ends a leg by /abort_request. The decode worker is not told, as in
// SGLang: whoever aborts one leg has to abort the other.
func (k *rank) abortPrefill(r *request) {
	if r.leg.state == legComputing {
		k.leave(r) // it is in a queue that abort goes through
		return
	}
	stage := "Prefill bootstrap"
	if r.leg.state == legSending {
		stage = "Prefill transfer"
	}
	k.failPrefill(r, stage, byAbort)
}

// failPrefill ends a leg that no batch holds.
func (k *rank) failPrefill(r *request, stage, why string) {
	if k.leave(r) {
		k.finish(r, legProblem(stage, r, "req", why))
	}
}

// leave takes r out of its room.
func (k *rank) leave(r *request) bool {
	r.leg.late.Stop()
	k.side.desk.rise(meeting{k.id, r.leg.room})
	return k.drop(r)
}

// ship gives the link what a batch has left of r's prompt: chunks travel while the
// next ones are computed.
func (k *rank) ship(r *request) {
	if r.leg == nil {
		return
	}
	n := r.computed - min(r.leg.shipped, r.computed)
	if r.leg.join != nil && r.leg.shipped == 0 {
		n = max(0, n-r.leg.join.have) // the decode worker's own cache holds these
	}
	r.leg.shipped = r.computed
	d := float64(k.cfg.Service.transfer(n)) * k.faults.transferSlowdown()
	k.linkFree = max(k.linkFree, k.pace.now) + time.Duration(d)
}

// handOver begins the transfer of a prompt that is computed. Its pages stay locked
// until the transfer ends.
func (k *rank) handOver(r *request, now time.Time) {
	k.count.generated++
	r.hand(now)
	r.signal()
	k.ship(r)
	r.leg.state = legSending
	switch {
	case r.leg.join.left.Load():
		k.forsake(r)
	case !k.faults.stallsTransfer():
		wait := k.linkFree + k.cfg.Service.TransferLatency - k.pace.now
		time.AfterFunc(k.cfg.real(wait), func() { k.do(func() { k.delivered(r) }) })
	}
}

// delivered answers both clients: the keys and values have arrived.
func (k *rank) delivered(r *request) {
	if r.leg.state != legSending || !slices.Contains(k.legs, r) {
		return
	}
	if r.leg.join.lost.Load() {
		k.failPrefill(r, "Prefill transfer", "Failed to send kv chunk of the room to the decode instance")
		return
	}
	r.leg.join.kv <- handoff{first: r.leg.first, cached: r.cached, prompt: len(r.prompt)}
	k.leave(r)
	k.finish(r, finish{kind: "length", handed: true})
}
