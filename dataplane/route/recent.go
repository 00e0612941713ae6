package route

import (
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/worker"
	"github.com/warmpath/warmpath/radix"
)

// recent remembers the last answers for the moment in which the worker has
// cached them and its events have not come yet. The engine publishes an
// answer's pages in the scheduler step after the answer (measured on a real
// engine: within 1.5 ms of the answer's last byte, 80 ms on a machine at ten
// times its load), so a client that sends its next turn at once is faster than
// the events.
//
// The worker caches the first floor((n+m-1)/page) pages of a prompt of n
// tokens and its answer of m. A prompt that begins with the n tokens is
// credited with their pages; it gets the answer's pages as far as it goes on
// with the very ids that were generated, where the answer told them.
type recent struct {
	mu   sync.Mutex
	ring [recentSize]answer // guarded by mu
	next int                // guarded by mu
}

// What is older than recentFor is the events' word alone. The ring holds the
// answers of that time up to 2,500 a second, 16 KB each at most.
const (
	recentSize   = 256
	recentFor    = 100 * time.Millisecond
	recentAnswer = 4096
)

// answer is one answer that ended.
type answer struct {
	rank *worker.Rank
	at   time.Time
	mark mark
	ids  []uint32 // generated; its memory is the ring's and is reused
}

// mark names a whole prompt of n tokens, so that a longer prompt can be asked
// whether it begins with it.
type mark struct {
	tokens int        // n; 0 means no mark
	block  int        // tokens a block
	blocks uint64     // fold over the whole blocks, seeded by LoRA and salt
	rest   radix.Hash // of the tokens behind them
}

// Ended tells the router that the decision's rank has answered, with the
// generated ids where they are known. It keeps no reference to them.
func (r *Router) Ended(d *Decision, generated []uint32, now time.Time) {
	if d.mark.tokens == 0 {
		return
	}
	generated = generated[:min(len(generated), recentAnswer)]
	r.recent.mu.Lock()
	defer r.recent.mu.Unlock()
	a := &r.recent.ring[r.recent.next]
	*a = answer{rank: d.Rank, at: now, mark: d.mark, ids: append(a.ids[:0], generated...)}
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

// continued credits candidates with the answers that this prompt continues.
func (r *Router) continued(s *Scratch, p *Prompt, block int, now time.Time) {
	r.recent.mu.Lock()
	defer r.recent.mu.Unlock()
	for k := range recentSize { // the newest first
		a := &r.recent.ring[(r.recent.next+recentSize-1-k)%recentSize]
		if a.rank == nil || now.Sub(a.at) >= recentFor {
			return
		}
		if a.mark.block != block || !s.begins(r.index, p, &a.mark) {
			continue
		}
		if a.rank.Worker.Since().After(a.at) { // it went down since, and its cache with it
			continue
		}
		s.credit(a.rank, a.held(p.Tokens), block)
	}
}

// held returns how many of the tokens, which begin with the answered prompt,
// are in whole pages that the engine has cached.
func (a *answer) held(tokens []uint32) int {
	n := a.mark.tokens
	same := 0
	for same < len(a.ids) && n+same < len(tokens) && tokens[n+same] == a.ids[same] {
		same++
	}
	if same > 0 && same == len(a.ids) {
		same-- // the last generated token is not computed, so not cached
	}
	return (n + same) / a.mark.block * a.mark.block
}

// credit raises what a candidate is known to hold.
func (s *Scratch) credit(rank *worker.Rank, held, block int) {
	if len(rank.Holders()) > 1 { // a hybrid model: which groups kept it is unknown
		return
	}
	for i, r := range s.ranks {
		if r == rank && held > s.credits[i].tokens {
			s.credits[i] = match{tokens: held, gpu: held, block: block}
		}
	}
}
