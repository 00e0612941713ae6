package store

import (
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// pull is a batch of pages of a peer that this store is going to have.
type pull struct {
	ns     uint32
	hashes []proto.Hash
	parent *proto.Hash
	done   chan struct{} // closed when the pages are present, or will not come
	hinted bool          // by a router
}

func newPull(ns uint32, hashes []proto.Hash, parent *proto.Hash, hinted bool) *pull {
	return &pull{ns: ns, hashes: hashes, parent: parent, done: make(chan struct{}), hinted: hinted}
}

// incoming knows the pages that are being pulled.
type incoming struct {
	mu    sync.Mutex
	pulls map[key]*pull // guarded by mu
}

// add announces the pages of a pull, until end.
func (c *incoming) add(q *pull) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pulls == nil {
		c.pulls = map[key]*pull{}
	}
	for _, h := range q.hashes {
		if k := (key{q.ns, h}); c.pulls[k] == nil {
			c.pulls[k] = q
		}
	}
}

// end ends a pull: its pages are present now, or will not come.
func (c *incoming) end(q *pull) {
	c.mu.Lock()
	for _, h := range q.hashes {
		if k := (key{q.ns, h}); c.pulls[k] == q {
			delete(c.pulls, k)
		}
	}
	c.mu.Unlock()
	close(q.done)
}

// of returns the pull of a page, or nil.
func (c *incoming) of(k key) *pull {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pulls[k]
}

// leading returns the number of leading pages that are being pulled.
func (c *incoming) leading(ns uint32, hashes []proto.Hash) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, h := range hashes {
		if c.pulls[key{ns, h}] == nil {
			return i
		}
	}
	return len(hashes)
}

// await waits until none of the pages is being pulled, for wait at most.
func (c *incoming) await(ns uint32, hashes []proto.Hash, wait time.Duration) {
	var timer *time.Timer
	for _, h := range hashes {
		q := c.of(key{ns, h})
		if q == nil {
			continue
		}
		if timer == nil {
			timer = time.NewTimer(wait)
			defer timer.Stop()
		}
		select {
		case <-q.done:
		case <-timer.C:
			return
		}
	}
}
