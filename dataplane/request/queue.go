package request

import (
	"hash/maphash"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/queue"
)

// spareShare is the share of a rank's batch size that may wait at the rank beyond it: else the
// batch had a hole from the end of one answer until the next request has come from here.
const spareShare = 8

// fullBacklog is the prefill backlog from which a prefill worker is full: an engine computes its
// prompts oldest first, and one that waits here can still go elsewhere, after a better one, or
// nowhere. Reports come every second, so that a rank with as much is not idle before the next.
const fullBacklog = time.Second

// usualChunk is the chunk of a prefill where a worker does not say.
const usualChunk = 8192

// headerDeadline is the time in seconds that the client waits for the first token.
const headerDeadline = "X-Warmpath-Deadline"

// maxDeadline bounds what a client may ask for.
const maxDeadline = time.Hour

var errDeadline = openai.BadRequest(headerDeadline,
	"The header must be a number of seconds above 0, such as 2.5: the time until which the first token is worth having.")

// admission holds requests back while every rank that could take them is full. A nil admission
// admits all.
type admission struct {
	gate        *queue.Gate
	router      *routing.Router
	maxInFlight atomic.Int64 // QueueConfig.MaxInFlight
	seed        maphash.Seed // of clients' ids
	fit         routing.Eligible
	waited      func(seconds float64) // of a wait that ended with a place at a rank
}

func newAdmission(cfg *QueueConfig, router *routing.Router, m *Metrics) *admission {
	if cfg.Max < 0 {
		return nil
	}
	a := &admission{router: router, seed: maphash.MakeSeed(), waited: m.queueWait.Observe}
	a.maxInFlight.Store(int64(cfg.MaxInFlight))
	a.gate = queue.New(queue.Config{Max: cfg.Max, Timeout: cfg.Timeout, FIFO: cfg.FIFO, Ranks: a.appendRanks})
	return a
}

// appendRanks appends the ranks that serve a model, with the requests that each can take. The gate
// calls it under its lock.
func (a *admission) appendRanks(dst []queue.Rank, model string) []queue.Rank {
	ranks, err := a.router.Eligible(&a.fit, &routing.Prompt{Model: model, DP: queue.AnyDP})
	if err != nil {
		return dst
	}
	now, decode := time.Now(), 0
	for _, rank := range a.fit.Decodes() {
		decode += max(a.capacity(rank, now), 0)
	}
	for _, rank := range ranks {
		load := rank.Load.View(now)
		free := a.room(rank, &load)
		if rank.Worker.Role() == worker.RolePrefill { // the decode worker needs capacity, too
			free = min(free, decode)
			decode -= max(free, 0)
		}
		dst = append(dst, queue.Rank{Key: rank, DP: rank.DPRank, Room: free, Held: int(load.InFlight)})
	}
	return dst
}

// capacity returns how many requests a rank can take. An unused rank can always take one.
func (a *admission) capacity(rank *worker.Rank, now time.Time) int {
	load := rank.Load.View(now)
	return a.free(&load)
}

func (a *admission) free(load *worker.LoadView) int {
	free, limit := 1, a.maxInFlight.Load()
	if limit == 0 && load.Most > 0 {
		limit = load.Most + max(load.Most/spareShare, 1)
	}
	if limit > 0 {
		free = int(limit - load.InFlight)
	}
	// The word of other routers alone takes no more than their parts.
	if own := load.InFlight - load.Claimed; load.Claimed > 0 && own*load.Routers < limit {
		free = max(free, 1)
	}
	if load.Pool > 0 && load.Used >= load.Pool {
		free = min(free, 0)
	}
	if load.InFlight == 0 {
		free = max(free, 1)
	}
	return free
}

// room returns how many of the waiting requests may go to a rank now: no more than one, after
// which its tokens are known, and none while it computes.
//
// An engine computes waiting prompts before it goes on with its answers: one that always has some
// ends no answer before its batch is full. So others wait here for the next batch, but a request
// may still choose a rank that computes, for its cache. Prefill workers have no answers, and may
// have a second batch ready.
func (a *admission) room(rank *worker.Rank, load *worker.LoadView) int {
	free := a.free(load)
	if load.Rate <= 0 || load.InFlight == 0 {
		return free
	}
	full := float64(load.Pending) >= load.Rate*fullBacklog.Seconds()
	if rank.Worker.Role() != worker.RolePrefill {
		chunk := usualChunk
		if info := rank.Worker.Info(); info != nil && info.Chunk > 0 {
			chunk = info.Chunk
		}
		full = load.Batch.Computing(load.Rate, chunk)
	}
	if full {
		return min(free, 0)
	}
	return min(free, 1)
}

// admit waits while every rank that could take the request is full.
func (a *admission) admit(x *exchange) error {
	if a == nil || !x.inference {
		return nil
	}
	deadline := x.call.peek(headerDeadline)
	// Fast path: some rank has capacity.
	if len(deadline) == 0 && !a.gate.Engaged() {
		return nil
	}
	return a.admitSlow(x, deadline)
}

func (a *admission) admitSlow(x *exchange, header []byte) error {
	c := &x.choice
	var fit routing.Eligible
	ranks, err := a.router.Eligible(&fit, &c.prompt)
	if err != nil {
		return nil //nolint:nilerr // the choice fails for the same reason, and says it better
	}
	model, patience := queueOf(ranks[0], c.prompt.Model), time.Duration(0)
	most := x.credential.deadline()
	if len(header) == 0 && most > 0 {
		patience = min(most, a.gate.Timeout())
	}
	if len(header) > 0 {
		deadline, err := parseDeadline(header)
		if err != nil {
			return err
		}
		if most > 0 {
			deadline = min(deadline, most)
		}
		patience = deadline - routing.FirstToken(a.router, &c.scratch, &c.prompt) - time.Since(x.started)
		if patience <= 0 {
			return a.gate.Refuse(model)
		}
	}
	if !a.gate.Engaged() {
		return nil
	}
	gone := make(chan struct{}, 1)
	if !x.canceler.OnCancel(func() { gone <- struct{}{} }) {
		gone <- struct{}{}
	}
	w := a.waiter(x)
	w.Patience = patience
	c.ticket, err = a.gate.Enter(gone, model, w)
	x.canceler.OnCancel(nil)
	if err == nil && c.ticket.Waited > 0 {
		a.waited(c.ticket.Waited.Seconds())
	}
	return err
}

// parseDeadline reads the header of a client that names its deadline.
func parseDeadline(header []byte) (time.Duration, error) {
	seconds, err := strconv.ParseFloat(string(header), 64)
	if err != nil || !(seconds > 0) {
		return 0, errDeadline
	}
	return time.Duration(min(seconds, maxDeadline.Seconds()) * float64(time.Second)), nil
}

// queueOf names the queue of a request that a rank could take: by the base model, for all
// adapter.
func queueOf(rank *worker.Rank, model string) string {
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
func (a *admission) waiter(x *exchange) *queue.Waiter {
	p := &x.choice.prompt
	// The queue is fair to clients by key, else by address: all else is the sender's to change.
	w := &queue.Waiter{Client: x.h.sources.client(x), Priority: queue.NoPriority, Tokens: p.Len() + p.Rest, DP: p.DP}
	if x.req.HasPriority {
		w.Priority = x.req.Priority
	}
	if p.Opaque {
		return w
	}
	seed := maphash.Comparable(a.seed, [3]string{p.LoRA, p.Salt, p.ExtraKey})
	if p.Exact {
		w.Branch = queue.AppendTokens(nil, seed, p.Tokens)
	} else {
		w.Branch = queue.AppendText(nil, seed, p.Text)
	}
	return w
}

// dispatched tells the queue that the request counts as a rank's load, and whether it has filled
// the rank. Of a pair, the ticket is the prefill rank's, and either may be full now.
func (a *admission) dispatched(c *choice, now time.Time) {
	if a == nil {
		return
	}
	rank, decode := c.decision.Rank, c.decision.Decode
	c.ticket.Dispatched(rank)
	load := rank.Load.View(now)
	if info := rank.Worker.Info(); info != nil && a.room(rank, &load) <= 0 {
		a.gate.Full(queueOf(rank, c.prompt.Model))
	}
	if decode != nil && a.capacity(decode, now) <= 0 {
		a.gate.Full(queueOf(decode, c.prompt.Model))
	}
}

// freed tells the queue that a request is no load any more.
func (a *admission) freed() {
	if a != nil && a.gate.Engaged() {
		a.gate.Freed()
	}
}
