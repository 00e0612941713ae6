package peers

import (
	"slices"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/routing"
)

// requests are this router's requests to the leader.
type requests struct {
	mu      sync.Mutex
	next    uint64             // guarded by mu, as is all below
	waiting map[uint64]*waiter // by number
	sent    []int64            // numbers of replies that count as load, not published yet
	done    []int64            // numbers of ended prompts, not published yet

	pool sync.Pool // of *waiter
}

// maxUntold bounds the numbers to publish. Without them the leader's promises and predictions
// expire.
const maxUntold = 1 << 16

// waiter is one request that waits for its reply.
type waiter struct {
	reply chan routing.PeerReply // capacity 1
	timer *time.Timer
	buf   []byte
}

func (r *requests) begin() (*waiter, uint64) {
	w, ok := r.pool.Get().(*waiter)
	if !ok {
		w = &waiter{reply: make(chan routing.PeerReply, 1), timer: time.NewTimer(time.Hour)}
		w.timer.Stop()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	r.waiting[r.next] = w
	return w, r.next
}

// end removes a request, and reports whether it had no reply yet.
func (r *requests) end(number uint64) bool { return r.take(number) != nil }

// take removes a request and returns its waiter; nil: it does not wait.
func (r *requests) take(number uint64) *waiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.waiting[number]
	delete(r.waiting, number)
	return w
}

// number returns the number of a prompt that needs no reply.
func (r *requests) number() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	return r.next
}

// noteSent notes a number to publish.
func (r *requests) noteSent(number uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.sent) < maxUntold {
		r.sent = append(r.sent, int64(number))
	}
}

// noteDone notes a number to publish.
func (r *requests) noteDone(number uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.done) < maxUntold {
		r.done = append(r.done, int64(number))
	}
}

// drain appends and clears the numbers to publish.
func (r *requests) drain(sent, done []int64) (_, _ []int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sent, done = append(sent, r.sent...), append(done, r.done...)
	r.sent, r.done = r.sent[:0], r.done[:0]
	return sent, done
}

// Active implements routing.Peers.
func (g *Group) Active() bool {
	g.leader.stir()
	if g.leader.leader.Load() == nil {
		return false
	}
	if g.leader.pause.over() {
		return true
	}
	g.count.alone.Add(1)
	return false
}

// Choose implements routing.Peers.
func (g *Group) Choose(a *routing.PeerRequest) (routing.PeerReply, bool) {
	leader := g.leader.leader.Load()
	if leader == nil {
		return routing.PeerReply{}, false
	}
	if !g.leader.pause.try(g.cfg.Deadline) { // another request has just begun to find out
		g.count.alone.Add(1)
		return routing.PeerReply{}, false
	}
	g.count.asked.Add(1)
	w, number := g.requests.begin()
	w.buf = appendRequest(w.buf[:0], g.cfg.ID, number, a)
	err := g.cfg.Bus.Publish(leader.subject, w.buf)
	reply, ok := routing.PeerReply{}, false
	if err == nil {
		w.timer.Reset(g.cfg.Deadline)
		select {
		case reply = <-w.reply:
			ok = true
		case <-w.timer.C:
		}
		w.timer.Stop()
	}
	if !ok && !g.requests.end(number) { // the reply arrives just now
		reply, ok = <-w.reply, true
	}
	g.requests.pool.Put(w)
	switch {
	case !ok:
		g.Done(number) // this router chooses instead
		g.count.late.Add(1)
		g.leader.pause.begin(time.Now().UnixNano(), err != nil)
	case reply.Rank == 0:
		g.count.refused.Add(1)
		g.leader.pause.end()
		return reply, false
	default:
		g.count.answered.Add(1)
		g.leader.pause.inTime()
	}
	return reply, ok
}

// Sent implements routing.Peers.
func (g *Group) Sent(number uint64) {
	g.requests.noteSent(number)
	g.leader.stir()
}

// Present implements routing.Peers.
func (g *Group) Present() bool { return g.leader.present.Load() }

// Tell implements routing.Peers.
func (g *Group) Tell(rank uint64, tokens int, fingerprints []uint32) uint64 {
	number := g.requests.number()
	g.tell(g.leader.leader.Load(), &promptMessage{number: number, rank: rank, tokens: tokens, fingerprints: fingerprints})
	return number
}

// Done implements routing.Peers.
func (g *Group) Done(number uint64) {
	g.requests.noteDone(number)
	g.leader.stir()
}

// tell sends the leader a prompt; nil: this router leads and knows it.
func (g *Group) tell(leader *peer, m *promptMessage) {
	if leader == nil {
		return
	}
	m.id = g.cfg.ID
	if err := g.cfg.Bus.Publish(leader.subject, m.encode()); err != nil {
		g.count.failed.Add(1)
		return
	}
	g.count.told.Add(1)
}

// tellAgain sends a new leader this router's prompts in flight.
func (g *Group) tellAgain(now time.Time) {
	leader := g.leader.leader.Load()
	if !g.leader.changed.Swap(false) || leader == nil {
		return
	}
	var all []promptMessage
	g.cfg.Predictions.Own(now, func(number, rank uint64, tokens int, fingerprints []uint32) {
		all = append(all, promptMessage{number: number, rank: rank, tokens: tokens, fingerprints: slices.Clone(fingerprints)})
	})
	for i := range all {
		g.tell(leader, &all[i])
	}
}

// onReply takes the reply to a request of this router.
func (g *Group) onReply(data []byte) {
	reply, err := readReply(data)
	if err != nil {
		g.count.malformed.Add(1)
		return
	}
	w := g.requests.take(reply.Number)
	if w == nil { // late: the leader may have been told of the end before it chose
		g.Sent(reply.Number)
		g.Done(reply.Number)
		return
	}
	w.reply <- reply
}
