package request

import (
	"errors"
	"hash/maphash"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/queue"
)

// QueueConfig says when requests wait here instead of at a worker.
type QueueConfig struct {
	Max         int           // waiting requests of a model; default 8192; negative: none ever waits
	Timeout     time.Duration // of each waiting request; default 5 min
	MaxInFlight int           // requests of one rank from which it is full; 0: what it runs at once, by its reports, and an eighth
	FIFO        bool          // first come, first served, without priorities, turns of clients and branches
}

// spareShare of what a rank runs at once may wait there: else its batch had a hole from the end of one answer until the next request
// has come from here.
const spareShare = 8

// waitRoom is the queue in front of full workers.
type waitRoom struct {
	*queue.Gate
	most  atomic.Int64 // QueueConfig.MaxInFlight
	seed  maphash.Seed // of clients' names
	fit   routing.Scratch
	waits func(seconds float64) // a wait that ended in a place
}

func newWaitRoom(s *Server) *waitRoom {
	cfg := s.cfg.Queue
	if cfg.Max < 0 {
		return nil
	}
	r := &waitRoom{seed: maphash.MakeSeed()}
	r.most.Store(int64(cfg.MaxInFlight))
	r.Gate = queue.New(queue.Config{Max: cfg.Max, Timeout: cfg.Timeout, FIFO: cfg.FIFO, Lanes: func(dst []queue.Lane, model string) []queue.Lane {
		ranks, err := s.Router.Fit(&r.fit, &routing.Prompt{Model: model, DP: queue.AnyDP})
		if err != nil {
			return dst
		}
		now, decode := time.Now(), 0
		for _, rank := range r.fit.Decodes() {
			decode += max(r.room(rank, now), 0)
		}
		for _, rank := range ranks {
			room := r.room(rank, now)
			if rank.Worker.Role() == worker.RolePrefill { // a request needs room at both
				room = min(room, decode)
				decode -= max(room, 0)
			}
			dst = append(dst, queue.Lane{Key: rank, DP: rank.DPRank, Room: room})
		}
		return dst
	}})
	return r
}

// room is how many requests a rank can take. A rank that nobody uses can always take one.
func (r *waitRoom) room(rank *worker.Rank, now time.Time) int {
	load := rank.Load.View(now)
	room, most := 1, r.most.Load()
	if most == 0 && load.Most > 0 {
		most = load.Most + max(load.Most/spareShare, 1)
	}
	if most > 0 {
		room = int(most - load.InFlight)
	}
	if load.Pool > 0 && load.Used >= load.Pool {
		room = min(room, 0)
	}
	if load.InFlight == 0 {
		room = max(room, 1)
	}
	return room
}

// wait holds the request back while every rank that could take it is full; false: it was refused, or its client left.
func (e *exchange) wait(c call) bool {
	// Fast path: somebody has room.
	if r := e.s.waits; r == nil || !e.inferred || !r.Engaged() {
		return true
	}
	return e.waitSlow(c)
}

func (e *exchange) waitSlow(c call) bool {
	ranks, err := e.s.Router.Fit(&e.scratch, &e.prompt)
	if err != nil {
		return true // Pick says it better
	}
	gone := make(chan struct{}, 1)
	if !e.canceler.OnCancel(func() { gone <- struct{}{} }) {
		gone <- struct{}{}
	}
	e.place, err = e.s.waits.Enter(gone, lineOf(ranks[0], e.prompt.Model), e.waiter(c))
	e.canceler.OnCancel(nil)
	var full *queue.RefusedError
	switch {
	case err == nil:
		if e.place.Waited > 0 {
			e.s.waits.waits(e.place.Waited.Seconds())
		}
		return true
	case e.client.Gone():
		e.giveUp(c, err)
	case errors.As(err, &full):
		e.s.fail(c.answer(), errorFor(err, e.prompt.Model))
		c.answer().Response.Header.Set("Retry-After", strconv.Itoa(int(full.RetryAfter.Seconds())))
		e.release()
	default:
		e.refuse(c, err)
	}
	return false
}

// lineOf names the queue of a request that a rank could take: the served model, whatever the adapter.
func lineOf(rank *worker.Rank, model string) string {
	info := rank.Worker.Info()
	if slices.Contains(info.Models, model) {
		return model
	}
	if base, _ := openai.SplitModel(model, ""); slices.Contains(info.Models, base) {
		return base
	}
	return info.Model()
}

// waiter describes the request to the queue.
func (e *exchange) waiter(c call) *queue.Waiter {
	w := &queue.Waiter{Client: e.clientID(c), Priority: queue.NoPriority, Tokens: e.prompt.Len(), DP: e.prompt.DP}
	if e.req.HasPriority {
		w.Priority = e.req.Priority
	}
	p := &e.prompt
	if p.Opaque {
		return w
	}
	seed := maphash.Comparable(e.s.waits.seed, [3]string{p.LoRA, p.Salt, p.ExtraKey})
	if p.Exact {
		w.Branch = queue.AppendTokens(nil, seed, p.Tokens)
	} else {
		w.Branch = queue.AppendText(nil, seed, p.Text)
	}
	return w
}

// clientID says whose turn the request takes: that of its API key and, behind one, of the user that the body names; without either,
// that of its address.
func (e *exchange) clientID(c call) uint64 {
	var h maphash.Hash
	h.SetSeed(e.s.waits.seed)
	named := false
	for _, name := range [...]string{fasthttp.HeaderAuthorization, "X-Api-Key"} {
		key := c.peek(name)
		_, _ = h.Write(key)
		_ = h.WriteByte(0)
		named = named || len(key) > 0
	}
	user := e.req.RawUser()
	_, _ = h.Write(user)
	if !named && len(user) == 0 {
		_, _ = h.Write(c.remoteIP())
	}
	return h.Sum64()
}

// pick chooses a rank; for a request that had to wait, one with room.
func (e *exchange) pick() (routing.Decision, error) {
	own := e.place.Lane()
	if own == nil || len(e.tried) > 0 {
		return e.s.Router.Pick(&e.scratch, &e.prompt, e.tried)
	}
	now := time.Now()
	for _, rank := range e.s.Registry.Snapshot().Ranks {
		if any(rank) != own && e.s.waits.room(rank, now) <= 0 {
			e.tried = append(e.tried, rank)
		}
	}
	d, err := e.s.Router.Pick(&e.scratch, &e.prompt, e.tried)
	clear(e.tried)
	if e.tried = e.tried[:0]; err != nil {
		return e.s.Router.Pick(&e.scratch, &e.prompt, nil)
	}
	return d, nil
}

// seated tells the queue that the request is counted as a rank's load, and whether that was the last room there.
func (e *exchange) seated(rank *worker.Rank, now time.Time) {
	r := e.s.waits
	if r == nil {
		return
	}
	e.place.Began(rank)
	if info := rank.Worker.Info(); info != nil && r.room(rank, now) <= 0 {
		r.Full(lineOf(rank, e.prompt.Model))
	}
}

// seatedPair is seated for a pair: the place is the prefill rank's, and either may be full now.
func (e *exchange) seatedPair(now time.Time) {
	r := e.s.waits
	if r == nil {
		return
	}
	e.seated(e.decision.Rank, now)
	if rank := e.decision.Decode; r.room(rank, now) <= 0 {
		r.Full(lineOf(rank, e.prompt.Model))
	}
}

// unseated tells it that the request is no load any more.
func (e *exchange) unseated() { e.s.freed() }

func (s *Server) freed() {
	if r := s.waits; r != nil && r.Engaged() {
		r.Freed()
	}
}
