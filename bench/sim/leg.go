package sim

import (
	"context"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fastjson"
)

// leg is the state of a request that is one half of a pair. The fields of the first group are
// constant, the others belong to the rank's goroutine.
type leg struct {
	room int64
	addr string // of the prefill worker's bootstrap server
	rank int    // Of the prefill worker; -1: derived from the room.

	state legState
	first uint32 // The first token, from the prefill leg.

	conn    *decodeConn // prefill: connection of the decode worker
	late    *time.Timer // prefill: limit of the wait for it
	shipped int         // prefill: tokens sent to the link

	admitted chan struct{} // decode: closed when the rank has pages for the request
	ctx      context.Context
	cancel   context.CancelFunc // decode: ends the reception
}

// legState is the progress of a leg.
type legState uint8

const (
	legParked    legState = iota // prefill: no decode worker is connected
	legComputing                 // prefill: in the queue or in a batch
	legSending                   // prefill: keys and values are being sent

	legMeeting   // decode: the prefill worker is looked up
	legReady     // decode: waits for pages
	legReceiving // decode: waits for keys and values
	legReceived  // decode: waits for a place in the running batch
	legStates    = iota
)

// transferError is a failure in the words of SGLang's KVTransferError.
func transferError(room int64, why string) string {
	return fmt.Sprintf("KVTransferError(bootstrap_room=%d): %s", room, why)
}

// legProblem is SGLang's error for a leg that failed.
func legProblem(stage string, r *request, subject, why string) finishReason {
	return finishReason{kind: "abort", status: fasthttp.StatusInternalServerError, message: fmt.Sprintf(
		"%s failed for request rank=0 %s.rid='%s' %s.bootstrap_room=%d with exception %s",
		stage, subject, r.id, subject, r.leg.room, transferError(r.leg.room, why))}
}

// byAbort is SGLang's text for a leg that /abort_request ended.
const byAbort = "Aborted by AbortReq."

// pairing holds a request's bootstrap fields: one value for all its sequences, or one for each.
type pairing struct {
	hosts []string
	ports []int
	rooms []int64
	rank  int
	whole bool // One room for all: sequence i has the ith after it.
}

// override applies SGLang's x-override-* headers.
func (p *pairing) override(h *fasthttp.RequestHeader) error {
	if v := h.Peek("x-override-bootstrap-host"); len(v) > 0 {
		p.hosts = []string{string(v)}
	}
	for _, x := range []struct {
		name string
		set  func(int64)
	}{
		{"x-override-bootstrap-port", func(n int64) { p.ports = []int{int(min(n, math.MaxInt32))} }},
		{"x-override-bootstrap-room", func(n int64) { p.rooms, p.whole = []int64{n}, true }},
		{"x-override-disagg-prefill-dp-rank", func(n int64) { p.rank = int(min(n, math.MaxInt32)) }},
	} {
		v := h.Peek(x.name)
		if len(v) == 0 {
			continue
		}
		n, err := strconv.ParseInt(string(v), 10, 64)
		if err != nil {
			return refused("invalid %s header '%s': invalid literal for int() with base 10: '%s'", x.name, v, v)
		}
		x.set(n)
	}
	return nil
}

// wholeNumbers reads a field that is a number or a list of numbers; null in a list is def. one
// is true for a single number.
func (o *object) wholeNumbers(key string, def int64) (all []int64, one bool) {
	v := o.value(key)
	if v == nil {
		return nil, false
	}
	list, err := v.Array()
	if err != nil {
		list, one = []*fastjson.Value{v}, true
	}
	for _, v := range list {
		n := def
		if v.Type() != fastjson.TypeNull {
			if n, err = v.Int64(); err != nil {
				o.fail(invalid("int_type", key, "Input should be a valid integer"))
			}
		}
		all = append(all, n)
	}
	return all, one
}

// check refuses lists that do not fit the number of prompts.
func (p *pairing) check(prompts int) error {
	switch {
	case len(p.hosts) > 1 && len(p.hosts) != prompts, len(p.ports) > 1 && len(p.ports) != prompts:
		return refused("The length of bootstrap_host and bootstrap_port should be equal to the batch size.")
	case len(p.rooms) > 0 && !p.whole && len(p.rooms) != prompts:
		return refused("The length of bootstrap_room should be equal to the batch size.")
	}
	return nil
}

// leg returns the leg of sequence i, an answer to prompt at; nil without a room. A list of
// rooms is used again for each further answer to a prompt, as in SGLang, where only a single
// room can serve n > 1.
func (p *pairing) leg(i, at, port int) *leg {
	if len(p.rooms) == 0 {
		return nil
	}
	lg := &leg{rank: p.rank, addr: net.JoinHostPort(pick(p.hosts, at, "None"), strconv.Itoa(pick(p.ports, at, port)))}
	if p.whole {
		lg.room = p.rooms[0] + int64(i)
	} else {
		lg.room = p.rooms[at%len(p.rooms)]
	}
	if lg.room < 0 {
		return nil
	}
	return lg
}

func pick[T any](list []T, i int, def T) T {
	if len(list) == 0 {
		return def
	}
	return list[min(i, len(list)-1)]
}

// remove takes r out of the rank's legs.
func (l *legScheduler) remove(r *request) bool {
	i := slices.Index(l.list, r)
	if i < 0 {
		return false
	}
	l.list = slices.Delete(l.list, i, i+1)
	return true
}

// legScheduler advances a rank's legs until they run or have ended. It belongs to the rank's
// goroutine.
type legScheduler struct {
	rank     *rank
	list     []*request
	linkFree time.Duration // Simulated time when the link to the decode workers is idle.

	table   *roomTable       // Of a prefill worker.
	receive func(r *request) // Of a decode worker: starts to receive keys and values.
	used    *usedRooms
}

// begin adds a leg.
func (l *legScheduler) begin(r *request) {
	l.used.add(r.leg.room)
	l.list = append(l.list, r)
	if l.rank.cfg.Mode == ModePrefill {
		l.awaitDecode(r)
		return
	}
	r.leg.state = legMeeting
	l.receive(r)
}

// start advances legs before the next batch.
func (l *legScheduler) start() {
	if l.rank.cfg.Mode == ModeDecode && len(l.list) > 0 {
		l.admitLegs()
		l.runReceived()
	}
}

// abort ends the legs selected by hit.
func (l *legScheduler) abort(hit func(*request) bool) {
	for _, r := range slices.Clone(l.list) {
		switch {
		case !hit(r):
		case l.rank.cfg.Mode == ModePrefill:
			l.abortPrefill(r)
		case r.leg.state == legReceived:
			l.remove(r)
			l.rank.finish(r, aborted())
		default:
			r.leg.cancel() // the reception ends and tells the rank
		}
	}
}
