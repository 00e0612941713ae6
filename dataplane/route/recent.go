package route

import (
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/worker"
	"github.com/warmpath/warmpath/radix"
)

// recent remembers the last answers for the moment in which the worker has
// cached them and its events have not come yet. The engine publishes an
// answer's pages in the scheduler step after the answer (measured: 0.2 ms
// after the answer's last byte in the median, 31 ms at p95 on a busy machine),
// so a client that sends its next turn at once is faster than the events.
//
// The worker caches the first floor((n+m-1)/page) pages of a prompt of n
// tokens and its answer of m. The answer's ids are not known here; a prompt
// that begins with all n tokens and goes on is taken for the next turn.
type recent struct {
	mu   sync.Mutex
	ring [recentSize]answer // guarded by mu
	next int                // guarded by mu
}

// Events take a millisecond or two and 80 ms on a machine at ten times its
// load; what is older than recentFor is the events' word alone. The ring holds
// the answers of that time up to 2,500 a second.
const (
	recentSize = 256
	recentFor  = 100 * time.Millisecond
)

// answer is one answer that ended.
type answer struct {
	rank  *worker.Rank
	at    time.Time
	mark  mark
	total int // n + m
}

// mark names a whole prompt of n tokens, so that a longer prompt can be asked
// whether it begins with it.
type mark struct {
	tokens int        // n; 0 means no mark
	block  int        // tokens a block
	blocks uint64     // fold over the whole blocks, seeded by LoRA and salt
	rest   radix.Hash // of the tokens behind them
}

// Ended tells the router that the decision's rank has answered with completion
// tokens, or 0 when their number is not known.
func (r *Router) Ended(d *Decision, completion int, now time.Time) {
	if d.mark.tokens == 0 {
		return
	}
	r.recent.mu.Lock()
	defer r.recent.mu.Unlock()
	r.recent.ring[r.recent.next] = answer{rank: d.Rank, at: now, mark: d.mark, total: d.mark.tokens + completion}
	r.recent.next = (r.recent.next + 1) % recentSize
}

// sum folds the chain of whole blocks into s.sums, where s.sums[b] stands for
// the first b blocks, and returns the mark of the whole prompt.
func (s *Scratch) sum(x *radix.Index, p *Prompt, block int) mark {
	sum := uint64(1)
	if p.LoRA != "" || p.Salt != "" {
		sum = uint64(x.Mix(x.Mix(0, []byte(p.LoRA)), []byte(p.Salt)))
	}
	s.sums = append(s.sums[:0], sum)
	for _, h := range s.chain {
		sum = (sum ^ uint64(h)) * 0x9e3779b97f4a7c15 // odd, so no information is lost
		sum ^= sum >> 29
		s.sums = append(s.sums, sum)
	}
	return mark{
		tokens: len(p.Tokens), block: block, blocks: sum,
		rest: x.HashBlock(p.Tokens[len(s.chain)*block:]),
	}
}

// begins reports whether the prompt in s begins with all of m's tokens.
func (s *Scratch) begins(x *radix.Index, p *Prompt, m *mark) bool {
	whole := m.tokens / m.block
	return m.tokens <= len(p.Tokens) && whole < len(s.sums) && s.sums[whole] == m.blocks &&
		x.HashBlock(p.Tokens[whole*m.block:m.tokens]) == m.rest
}

// continued raises what ranks hold of this prompt by the answers that it
// continues.
func (r *Router) continued(s *Scratch, p *Prompt, block int, now time.Time) {
	r.recent.mu.Lock()
	s.answers = append(s.answers[:0], r.recent.ring[:]...)
	r.recent.mu.Unlock()
	for i := range s.answers {
		a := &s.answers[i]
		if a.rank == nil || a.mark.block != block || now.Sub(a.at) >= recentFor || !s.begins(r.index, p, &a.mark) {
			continue
		}
		if a.rank.Worker.Since().After(a.at) { // it went down since, and its cache with it
			continue
		}
		held := a.mark.tokens / block * block
		// A text holds the answer's words, which may be cut into other tokens than
		// were generated; only ids are known to continue it.
		if p.Sent && len(p.Tokens) > a.mark.tokens {
			held = max(held, (a.total-1)/block*block)
		}
		s.raise(a.rank, held, block)
	}
}

// raise credits a candidate with a prefix on its GPU.
func (s *Scratch) raise(rank *worker.Rank, held, block int) {
	ids := rank.Holders()
	if len(ids) != 1 { // no events to run ahead of, or a hybrid model
		return
	}
	s.record(radix.Overlap{Worker: radix.Worker(ids[0]), Blocks: held / block, GPU: held / block}, block)
}
