package store

import (
	"slices"
	"time"
)

const (
	// UsualPrefill is how many prompt tokens a second an engine computes at least, where the operator does not say: a large model on one older GPU. It keeps
	// a node from pulling over what is plainly no link for KV, as 1 Gb/s; who knows his engines' speed says so, and more links are too slow.
	UsualPrefill = 2000
	// retrySlow is how often a link that is too slow is given a question all the same: it may have become faster.
	retrySlow = 30 * time.Second
)

// worthwhile are those of the peers from which pages of a namespace come faster than an engine computes them, as far as is known: by what
// pulls from them took. Whoever sends a hint has reckoned himself, and is not asked this.
func (t *Tier) worthwhile(peers []*peer, ns uint32) []*peer {
	least := t.leastSpeed(ns)
	if least <= 0 {
		return peers
	}
	now := t.cfg.Now().UnixNano()
	return slices.DeleteFunc(peers, func(p *peer) bool {
		speed := p.rate.get()
		if speed == 0 || speed >= least {
			return false
		}
		last := p.tried.Load()
		if now-last >= int64(retrySlow) && p.tried.CompareAndSwap(last, now) {
			return false
		}
		t.counts.tooSlow.Add(1)
		return true
	})
}

// leastSpeed is how many bytes a second a link must bring: all ranks of the engine that are here take their part of each token, one after the other.
// 0 is any.
func (t *Tier) leastSpeed(ns uint32) float64 {
	if t.cfg.Prefill <= 0 {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.index.spaces[ns]
	if own == nil || own.Tokens == 0 {
		return 0 // an engine that does not say what its pages are
	}
	all := 0
	for _, n := range t.index.names {
		if s := t.index.spaces[n]; s.engine == own.engine {
			all += s.bytes
		}
	}
	return float64(all) / float64(own.Tokens) * t.cfg.Prefill
}
