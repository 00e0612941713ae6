package worker

import (
	"sync"
	"sync/atomic"
	"time"
)

// ExtraKeys knows the blocks of a rank that belong to prompts with an extra_key. Such prompts
// share nothing with others, but SGLang's events (0.5.23, in their default format) name their
// blocks like those of a plain prompt: only the router that sent the prompt can tell. Each
// expected block stands for one store. The zero value expects none. Its methods may be called
// from any goroutine.
type ExtraKeys struct {
	prompts atomic.Int64 // that are known

	mu     sync.Mutex
	blocks map[uint64]expected // guarded by mu, as is all below
	active int                 // stores expected
	ended  []*ExtraKeyPrompt   // the oldest first
}

// expected counts the stores of a block.
type expected struct {
	stores int // still expected
	taken  int // of the prompts that are known, came already
}

// KeyedPrompt is a prompt with an extra_key that was sent to a rank.
type ExtraKeyPrompt struct {
	blocks map[uint64]int // and how often it has them
	until  time.Time      // when nothing more is expected of it
}

const (
	// extraKeyGrace is how long after its answer a prompt's stores are expected: events come
	// within 80 ms on a slow machine.
	extraKeyGrace = 2 * time.Second
	// maxExtraKeyBlocks bounds the expected blocks of one rank: 16 MiB. Beyond it prompts are
	// not told apart.
	maxExtraKeyBlocks = 1 << 18
)

// Expect notes that stores of these blocks are to come. End must follow.
func (k *ExtraKeys) Expect(blocks []uint64) *ExtraKeyPrompt {
	p := &ExtraKeyPrompt{}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forgetLocked(time.Now())
	k.prompts.Add(1)
	if k.active+len(blocks) > maxExtraKeyBlocks {
		return p
	}
	p.blocks = make(map[uint64]int, len(blocks))
	for _, b := range blocks {
		p.blocks[b]++
	}
	if k.blocks == nil {
		k.blocks = make(map[uint64]expected)
	}
	for b, n := range p.blocks {
		e := k.blocks[b]
		e.stores += n
		k.blocks[b] = e
	}
	k.active += len(blocks)
	return p
}

// End notes that a prompt has been answered, or failed. nil is ignored.
func (k *ExtraKeys) End(p *ExtraKeyPrompt) {
	if p == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	p.until = now.Add(extraKeyGrace)
	k.ended = append(k.ended, p)
	k.forgetLocked(now)
}

// Any reports whether a prompt is known that has not ended, or only just.
func (k *ExtraKeys) Any() bool {
	if k.prompts.Load() == 0 {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forgetLocked(time.Now())
	return k.prompts.Load() > 0
}

// Take reports whether the store of a block was expected, and counts it.
func (k *ExtraKeys) Take(block uint64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forgetLocked(time.Now())
	e := k.blocks[block]
	if e.stores == 0 {
		return false
	}
	e.stores--
	e.taken++
	k.blocks[block] = e
	k.active--
	return true
}

// forgetLocked drops the expectations of prompts that ended a while ago. Stores count for the
// prompts that ended first.
func (k *ExtraKeys) forgetLocked(now time.Time) {
	for len(k.ended) > 0 && k.ended[0].until.Before(now) {
		p := k.ended[0]
		k.ended[0], k.ended = nil, k.ended[1:]
		k.prompts.Add(-1)
		for b, n := range p.blocks {
			e := k.blocks[b]
			came := min(n, e.taken)
			e.taken -= came
			e.stores -= n - came
			k.active -= n - came
			if k.blocks[b] = e; e == (expected{}) {
				delete(k.blocks, b)
			}
		}
	}
}
