package policies

import (
	"time"

	"github.com/warmpath/warmpath/dataplane/routing/queue"
)

// The orders of a router's queue.
const (
	DepthFirst = "depth-first" // package queue's
	FIFO       = "fifo"
)

// Queues lists the values of Config.Queues.
func Queues() []string { return []string{DepthFirst, FIFO} }

// These are the router's own constants (packages queue and request). Deadlines are not
// simulated: without the refused requests the others would look better than they are.
const (
	mostWaiting  = 8192
	queueUnit    = 16 // tokens of the unit in which package queue compares prompts
	overdueShare = 16 // of the deadline: a request that has waited for so long
	engagedPolls = 10 // reports of load since the last time that all workers were full
	spareShare   = 8  // of a worker's batch: requests that may wait there beside it
)

// gate is a replica's queue in front of full workers: the decisions are package queue's.
type gate struct {
	order  *queue.Order
	tasks  map[*queue.Waiter]*task
	rooms  []int64
	full   clock // when no worker had room the last time
	ids    []uint32
	open   []int32 // indices of the candidates in some
	some   candidates
	always bool // the next choice may be for a full worker, too
}

func newGate(order string, deadline time.Duration) *gate {
	rules := queue.Rules{Max: mostWaiting, MaxAge: deadline / overdueShare, FIFO: order == FIFO}
	return &gate{order: queue.NewOrder(rules), tasks: make(map[*queue.Waiter]*task), full: -never / 2}
}

// holding is the queues of all replicas.
type holding struct {
	*run
	held   int  // requests that waited
	turned int  // requests that found a full queue
	freed  bool // perhaps there is room for waiting requests
}

// look finds how many requests each worker can take, as far as r knows, and returns the worker
// that can take most.
func (s *holding) look(r *replica) (best int) {
	g, most := r.gate, int64(s.cfg.Service.MaxRunning)
	most += max(most/spareShare, 1)
	g.rooms = g.rooms[:0]
	for i := range r.loads {
		l := &r.loads[i]
		room := most - l.requests()
		if l.used() >= int64(s.cfg.CacheTokens) {
			room = min(room, 0)
		}
		if l.requests() == 0 {
			room = max(room, 1) // else it would stay full forever
		}
		if g.rooms = append(g.rooms, room); room > g.rooms[best] {
			best = i
		}
	}
	if g.rooms[best] <= 0 {
		g.full = s.time.now
	}
	return best
}

// enter sends t, or holds it back while all workers are full; false: the queue is full, too.
func (s *holding) enter(r *replica, t *task) bool {
	g := r.gate
	r.take(s.time.now)
	best := s.look(r)
	g.always = s.time.now-g.full > engagedPolls*ticks(s.cfg.Poll)
	if g.always {
		s.dispatch(r, t)
		return true
	}
	w := &queue.Waiter{Priority: queue.NoPriority, Tokens: t.input, DP: queue.AnyDP, Branch: g.branch(s.plan, t.job)}
	if g.order.Len() == 0 && g.rooms[best] > 0 {
		s.dispatch(r, t)
		g.order.Sent(int(t.worker), w.Branch)
		return true
	}
	out, ok := g.order.Push(w, s.time.now.duration())
	if ok {
		g.tasks[w] = t
		s.held++
	}
	if out != nil {
		s.turnAway(g.tasks[out])
		delete(g.tasks, out)
	}
	return ok
}

func (s *holding) turnAway(t *task) {
	t.worker = -1
	s.refused++
	s.turned++
	s.arrivals.ended(t)
}

// release sends one waiting request to a worker with room; false: none can go.
func (s *holding) release() bool {
	for _, r := range s.replicas {
		g := r.gate
		if g.order.Len() == 0 {
			continue
		}
		g.always = false
		best := s.look(r)
		if g.rooms[best] <= 0 {
			continue
		}
		w := g.order.Pop(best, 0, s.time.now.duration())
		s.dispatch(r, g.tasks[w])
		if to := g.tasks[w].worker; int(to) != best {
			g.order.Sent(int(to), w.Branch)
		}
		delete(g.tasks, w)
		return true
	}
	return false
}

// dispatch lets the policy choose, and sends.
func (s *holding) dispatch(r *replica, t *task) {
	s.route(r, t)
	t.sent = s.time.now
	s.workers[t.worker].submit(t, s.time.now)
}

// waits reports whether a router holds requests back.
func (s *holding) waits() bool {
	for _, r := range s.replicas {
		if r.gate != nil && r.gate.order.Len() > 0 {
			return true
		}
	}
	return false
}

// allowed are the candidates that a replica may choose among, and their workers; all of them
// where open is nil.
func (g *gate) allowed(all candidates) (some candidates, open []int32) {
	if g == nil || g.always {
		return all, nil
	}
	g.some, g.open = g.some[:0], g.open[:0]
	for i, room := range g.rooms {
		if room > 0 {
			g.some, g.open = append(g.some, all[i]), append(g.open, int32(i))
		}
	}
	return g.some, g.open
}

// branch places a prompt in the tree of all prompts, by made token ids: equal ones where
// prompts are equal, and as many for a page of any size.
func (g *gate) branch(p *plan, j *job) queue.Branch {
	g.ids = g.ids[:0]
	for _, n := range j.path {
		for k := range max(p.need(n, int32(j.input/p.page)), 0) * queueUnit {
			g.ids = append(g.ids, uint32(mix(uint64(n)<<32|uint64(k))))
		}
	}
	return queue.AppendTokens(nil, 0, g.ids)
}
