package request

import (
	"hash/maphash"
	"slices"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/queue"
)

// spareShare is the share of a rank's batch size that may wait at the rank beyond it: else the
// batch had a hole from the end of one answer until the next request has come from here.
const spareShare = 8

// admission holds requests back while every rank that could take them is full. A nil admission
// admits all.
type admission struct {
	gate        *queue.Gate
	router      *routing.Router
	maxInFlight atomic.Int64 // QueueConfig.MaxInFlight
	seed        maphash.Seed // of clients' ids
	fit         routing.Scratch
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
		free := a.capacity(rank, now)
		if rank.Worker.Role() == worker.RolePrefill { // the decode worker needs capacity, too
			free = min(free, decode)
			decode -= max(free, 0)
		}
		dst = append(dst, queue.Rank{Key: rank, DP: rank.DPRank, Room: free})
	}
	return dst
}

// capacity returns how many requests a rank can take. An unused rank can always take one.
func (a *admission) capacity(rank *worker.Rank, now time.Time) int {
	load := rank.Load.View(now)
	free, limit := 1, a.maxInFlight.Load()
	if limit == 0 && load.Most > 0 {
		limit = load.Most + max(load.Most/spareShare, 1)
	}
	if limit > 0 {
		free = int(limit - load.InFlight)
	}
	if load.Pool > 0 && load.Used >= load.Pool {
		free = min(free, 0)
	}
	if load.InFlight == 0 {
		free = max(free, 1)
	}
	return free
}

// admit waits while every rank that could take the request is full.
func (a *admission) admit(x *exchange) error {
	// Fast path: some rank has capacity.
	if a == nil || !x.inference || !a.gate.Engaged() {
		return nil
	}
	return a.admitSlow(x)
}

func (a *admission) admitSlow(x *exchange) error {
	c := &x.choice
	ranks, err := a.router.Eligible(&c.scratch, &c.prompt)
	if err != nil {
		return nil //nolint:nilerr // the choice fails for the same reason, and says it better
	}
	gone := make(chan struct{}, 1)
	if !x.canceler.OnCancel(func() { gone <- struct{}{} }) {
		gone <- struct{}{}
	}
	c.ticket, err = a.gate.Enter(gone, queueOf(ranks[0], c.prompt.Model), a.waiter(x))
	x.canceler.OnCancel(nil)
	if err == nil && c.ticket.Waited > 0 {
		a.waited(c.ticket.Waited.Seconds())
	}
	return err
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
	w := &queue.Waiter{Client: a.clientID(x), Priority: queue.NoPriority, Tokens: p.Len(), DP: p.DP}
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

// clientID names the client that the queue is fair to: by the API key and the user in the body, and
// without either by the address.
func (a *admission) clientID(x *exchange) uint64 {
	var h maphash.Hash
	h.SetSeed(a.seed)
	named := false
	for _, name := range [...]string{fasthttp.HeaderAuthorization, "X-Api-Key"} {
		key := x.call.peek(name)
		_, _ = h.Write(key)
		_ = h.WriteByte(0)
		named = named || len(key) > 0
	}
	user := x.req.RawUser()
	_, _ = h.Write(user)
	if !named && len(user) == 0 {
		_, _ = h.Write(x.call.remoteIP())
	}
	return h.Sum64()
}

// dispatched tells the queue that the request counts as a rank's load, and whether it has filled
// the rank.
func (a *admission) dispatched(c *choice, rank *worker.Rank, now time.Time) {
	if a == nil {
		return
	}
	c.ticket.Dispatched(rank)
	if info := rank.Worker.Info(); info != nil && a.capacity(rank, now) <= 0 {
		a.gate.Full(queueOf(rank, c.prompt.Model))
	}
}

// dispatchedPair is dispatched for a pair: the ticket is the prefill rank's, and either may be full
// now.
func (a *admission) dispatchedPair(c *choice, now time.Time) {
	if a == nil {
		return
	}
	a.dispatched(c, c.decision.Rank, now)
	if rank := c.decision.Decode; a.capacity(rank, now) <= 0 {
		a.gate.Full(queueOf(rank, c.prompt.Model))
	}
}

// freed tells the queue that a request is no load any more.
func (a *admission) freed() {
	if a != nil && a.gate.Engaged() {
		a.gate.Freed()
	}
}
