package peers

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// A router of which lateEnough answers in a row were late is not asked for firstPause, and for twice as long each time that the next
// request's answer is late too, up to lastPause: until it is forgotten, a dead one costs a few requests one deadline each. One late answer
// is a busy machine, and to choose without each other for 50 ms costs more than to wait once more.
const (
	lateEnough = 3
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// skip says whether the router that chooses is not to be asked.
type skip struct {
	until atomic.Int64 // unix nanoseconds; 0: it is
	pause atomic.Int64 // nanoseconds, of the next time
	late  atomic.Int64 // answers since the last one in time
}

func (s *skip) end() {
	s.until.Store(0)
	s.pause.Store(int64(firstPause))
	s.late.Store(0)
}

// inTime is called when an answer was.
func (s *skip) inTime() {
	if s.until.Load() != 0 || s.late.Load() != 0 {
		s.end()
	}
}

// begin is called when an answer was late, or sure never to come.
func (s *skip) begin(now int64, sure bool) {
	until := s.until.Load()
	if until > now || (s.late.Add(1) < lateEnough && until == 0 && !sure) {
		return
	}
	s.until.CompareAndSwap(until, now+s.pause.Load())
}

// open reports whether lets could.
func (s *skip) open() bool {
	until := s.until.Load()
	return until == 0 || time.Now().UnixNano() >= until
}

// lets reports whether a request may ask: all of them, or when a pause is over one.
func (s *skip) lets(deadline time.Duration) bool {
	until := s.until.Load()
	if until == 0 {
		return true
	}
	now, pause := time.Now().UnixNano(), min(2*s.pause.Load(), int64(lastPause))
	if now < until || !s.until.CompareAndSwap(until, now+int64(deadline)+pause) {
		return false
	}
	s.pause.Store(pause) // if this one is late, too
	return true
}

// asks are this router's questions.
type asks struct {
	mu      sync.Mutex
	next    uint64             // guarded by mu, as is all below
	waiting map[uint64]*waiter // by number
	sent    []int64            // numbers of answers that are counted as load, and not told yet
	done    []int64            // numbers of prompts that are computed or given up, and not told yet

	pool sync.Pool // of *waiter
}

// mostSent bounds numbers that are not told: without them the other router's promises and expectations end by themselves.
const mostSent = 1 << 16

// waiter is one request that waits for its answer.
type waiter struct {
	answer chan routing.Answer // capacity 1
	timer  *time.Timer
	buf    []byte
}

func (a *asks) begin() (*waiter, uint64) {
	w, ok := a.pool.Get().(*waiter)
	if !ok {
		w = &waiter{answer: make(chan routing.Answer, 1), timer: time.NewTimer(time.Hour)}
		w.timer.Stop()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next++
	a.waiting[a.next] = w
	return w, a.next
}

// end takes a waiter back, and reports whether nobody had an answer for it.
func (a *asks) end(number uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.waiting[number]
	delete(a.waiting, number)
	return ok
}

// take appends and clears what is to be told.
func (a *asks) take(sent, done []int64) (_, _ []int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sent, done = append(sent, a.sent...), append(done, a.done...)
	a.sent, a.done = a.sent[:0], a.done[:0]
	return sent, done
}

// Active implements route.Others.
func (g *Group) Active() bool {
	g.rouse()
	if g.chief.Load() == nil {
		return false
	}
	if g.skip.open() {
		return true
	}
	g.count.alone.Add(1)
	return false
}

// Choose implements route.Others.
func (g *Group) Choose(a *routing.Ask) (routing.Answer, bool) {
	chief := g.chief.Load()
	if chief == nil {
		return routing.Answer{}, false
	}
	if !g.skip.lets(g.cfg.Deadline) { // another request has just begun to find out
		g.count.alone.Add(1)
		return routing.Answer{}, false
	}
	g.count.asked.Add(1)
	w, number := g.asks.begin()
	w.buf = appendAsk(w.buf[:0], g.cfg.ID, number, a)
	err := g.cfg.Bus.Publish(chief.ask, w.buf)
	answer, ok := routing.Answer{}, false
	if err == nil {
		w.timer.Reset(g.cfg.Deadline)
		select {
		case answer = <-w.answer:
			ok = true
		case <-w.timer.C:
		}
		w.timer.Stop()
	}
	if !ok && !g.asks.end(number) { // it comes just now
		answer, ok = <-w.answer, true
	}
	g.asks.pool.Put(w)
	switch {
	case !ok:
		g.Done(number) // whatever was chosen: this router does so now
		g.count.late.Add(1)
		g.skip.begin(time.Now().UnixNano(), err != nil)
	case answer.Rank == 0:
		g.count.refused.Add(1)
		g.skip.end()
		return answer, false
	default:
		g.count.answered.Add(1)
		g.skip.inTime()
	}
	return answer, ok
}

// Sent implements route.Others.
func (g *Group) Sent(number uint64) {
	a := &g.asks
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.sent) < mostSent {
		a.sent = append(a.sent, int64(number))
	}
	g.rouse()
}

// Together implements route.Others.
func (g *Group) Together() bool { return g.some.Load() }

// Tell implements route.Others.
func (g *Group) Tell(rank uint64, tokens int, marks []uint32) uint64 {
	a := &g.asks
	a.mu.Lock()
	a.next++
	number := a.next
	a.mu.Unlock()
	g.tell(g.chief.Load(), &told{number: number, rank: rank, tokens: tokens, marks: marks})
	return number
}

// tell tells chief of a prompt; nil: this router chooses for all, and knows it.
func (g *Group) tell(chief *peer, t *told) {
	if chief == nil {
		return
	}
	t.id = g.cfg.ID
	if err := g.cfg.Bus.Publish(chief.ask, t.encode()); err != nil {
		g.count.failed.Add(1)
		return
	}
	g.count.told.Add(1)
}

// tellAgain tells a router that chooses since now of what was sent before.
func (g *Group) tellAgain(now time.Time) {
	chief := g.chief.Load()
	if !g.retell.Swap(false) || chief == nil {
		return
	}
	var all []told
	g.cfg.Expected.Own(now, func(number, rank uint64, tokens int, marks []uint32) {
		all = append(all, told{number: number, rank: rank, tokens: tokens, marks: slices.Clone(marks)})
	})
	for i := range all {
		g.tell(chief, &all[i])
	}
}

// Done implements route.Others.
func (g *Group) Done(number uint64) {
	a := &g.asks
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.done) < mostSent {
		a.done = append(a.done, int64(number))
	}
	g.rouse()
}

// rouse makes Run look often again: something is about to be sent.
func (g *Group) rouse() {
	if g.idle.Load() && g.idle.CompareAndSwap(true, false) {
		g.poke()
	}
}

// onAnswer takes the answer to one of our questions.
func (g *Group) onAnswer(data []byte) {
	answer, err := readAnswer(data)
	if err != nil {
		g.count.malformed.Add(1)
		return
	}
	g.asks.mu.Lock()
	w := g.asks.waiting[answer.Number]
	delete(g.asks.waiting, answer.Number)
	g.asks.mu.Unlock()
	if w == nil {
		// Too late: the choice is not needed. Whoever made it may have heard of its end before.
		g.Sent(answer.Number)
		g.Done(answer.Number)
		return
	}
	w.answer <- answer
}

// onTold takes note of a prompt that another router has sent.
func (g *Group) onTold(data []byte) {
	var t told
	if err := t.read(data); err != nil {
		g.count.malformed.Add(1)
		return
	}
	g.mu.Lock()
	known := g.peers[t.id] != nil
	g.mu.Unlock()
	if known { // else nobody would notice its end
		g.cfg.Expected.Expect(time.Now(), senderOf(t.id, t.number), t.rank, t.tokens, t.marks, true)
	}
}

// onAsk chooses for another router. It counts what it chooses at once, so that the next choice knows of it.
func (g *Group) onAsk(data []byte) {
	if len(data) > 1 && data[1] == kindTold {
		g.onTold(data)
		return
	}
	g.judging.Lock()
	defer g.judging.Unlock()
	q := &g.asked
	if err := q.read(data); err != nil {
		g.count.malformed.Add(1)
		return
	}
	answer := routing.Answer{Number: q.number}
	if d, err := g.cfg.Chooser.Arbitrate(&g.scratch, &q.Ask); err == nil {
		answer.Rank, answer.Cost = d.Rank.IDHash(), d.Choice.Cost
		if math.IsNaN(answer.Cost) || math.IsInf(answer.Cost, 0) {
			answer.Cost = 0
		}
		if d.Decode != nil {
			answer.Decode = d.Decode.IDHash()
		}
		g.promise(q, &d)
	}
	g.count.judged.Add(1)
	g.reply = appendAnswer(g.reply[:0], &answer)
	if err := g.cfg.Bus.Publish(subjectAnswer+string(q.id), g.reply); err != nil {
		g.count.failed.Add(1)
	}
}

// promise counts a choice for the router that asked.
func (g *Group) promise(q *question, d *routing.Decision) {
	uncached, work := int64(max(d.Uncached(), 0)), d.Work(q.Output, len(q.Marks) > 0)
	made := &promise{
		at: time.Now(), rank: d.Rank.IDHash(),
		share: worker.RouterLoad{InFlight: 1, Waiting: 1, Pending: uncached, Used: uncached, Held: work.Holds(), Sent: uncached},
	}
	if d.Decode != nil {
		made.decode = d.Decode.IDHash()
		made.second = worker.RouterLoad{InFlight: 1, Waiting: 1, Used: int64(d.DecodeTokens()), Held: work.Holds()}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.peers[string(q.id)]
	if p == nil || p.promises[q.number] != nil {
		return
	}
	g.resolveLocked(made.at)
	p.promises[q.number] = made
	g.cfg.Expected.Expect(made.at, routing.Sender{Router: p.key, Number: q.number}, made.rank, q.Tokens, q.Marks, false)
	first, second := p.take(made, 1)
	g.settleLocked(first, made.at)
	if second != nil {
		g.settleLocked(second, made.at)
	}
}
