package approx

import "unsafe"

// Worker is the number of a worker: the caller's, without large gaps.
type Worker uint32

// cache is the believed prefix cache of one worker. Clear and RemoveWorker end it at once, and
// drop its holdings piece by piece.
type cache struct {
	worker   Worker
	serial   uint32 // orders holders; never reused
	born     Tick   // requests that were inserted by then went to an earlier cache of the worker
	ended    bool
	list     useList
	units    int64 // sum over its holdings
	limit    int64 // configured capacity; 0: none
	capacity int64 // believed capacity, at most limit; 0: unknown
	stale    Tick  // the engine has evicted all that was last used by then
}

const cacheBytes = int64(unsafe.Sizeof(cache{})) + int64(unsafe.Sizeof((*cache)(nil)))

// raise raises a believed capacity that lacks room for one more prompt of this length; a
// capacity with room has not kept units out.
func (c *cache) raise(units, length int64) {
	if c.capacity == 0 || c.units+length <= c.capacity {
		return
	}
	c.setCapacity(c.capacity + units)
}

// setCapacity sets the believed capacity, within the configured one.
func (c *cache) setCapacity(units int64) {
	c.capacity = units
	if c.limit > 0 {
		c.capacity = min(units, c.limit)
	}
}

// prove marks the path that was used at now as proven, or as proven only since now. It is at
// the front of the list.
func (c *cache) prove(now Tick, anew bool) {
	ring := &c.list.ring
	for h := ring.links[ofCache].next; h != ring && h.used == now; h = h.links[ofCache].next {
		if anew || h.proven == 0 {
			h.proven = now
		}
	}
}
