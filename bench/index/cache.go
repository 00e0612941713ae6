package index

// cache is the LRU cache of one worker, by block id.
type cache struct {
	at   map[uint32]int32 // block id to index in the ring
	ring []cacheEntry     // most recently used first; entry 0 is the head
	free []int32
}

// cacheEntry has the request and position of a block's first use.
type cacheEntry struct {
	block, req, pos uint32
	prev, next      int32
}

func newCache() *cache { return &cache{at: map[uint32]int32{}, ring: make([]cacheEntry, 1)} }

func (c *cache) len() int { return len(c.at) }

func (c *cache) has(block uint32) bool {
	_, ok := c.at[block]
	return ok
}

// touch makes a block the most recently used, and adds it if it is new.
func (c *cache) touch(block, req, pos uint32) {
	i, known := c.at[block]
	if known {
		c.unlink(i)
	} else {
		i = c.slot()
		c.ring[i] = cacheEntry{block: block, req: req, pos: pos}
		c.at[block] = i
	}
	head := c.ring[0].next
	c.ring[i].prev, c.ring[i].next = 0, head
	c.ring[head].prev, c.ring[0].next = i, i
}

func (c *cache) slot() int32 {
	if n := len(c.free); n > 0 {
		i := c.free[n-1]
		c.free = c.free[:n-1]
		return i
	}
	c.ring = append(c.ring, cacheEntry{})
	return int32(len(c.ring) - 1)
}

func (c *cache) unlink(i int32) {
	e := &c.ring[i]
	c.ring[e.prev].next, c.ring[e.next].prev = e.next, e.prev
}

// oldest returns the n least recently used blocks, the oldest first. There must be that many.
func (c *cache) oldest(n int) (blocks []cacheEntry) {
	for i := c.ring[0].prev; len(blocks) < n; i = c.ring[i].prev {
		blocks = append(blocks, c.ring[i])
	}
	return blocks
}

// drop removes a block, which is there.
func (c *cache) drop(block uint32) {
	i := c.at[block]
	c.unlink(i)
	delete(c.at, block)
	c.free = append(c.free, i)
}
