package lru

// Cache is keys with a value each. Nothing is dropped but by Drop.
type Cache[K comparable, V any] struct {
	at   map[K]int32   // key to index in the ring
	ring []Entry[K, V] // most recently used first; entry 0 is the head
	free []int32
}

// Entry is a key with the value of its first use.
type Entry[K comparable, V any] struct {
	Key        K
	Value      V
	prev, next int32
}

// New returns an empty cache.
func New[K comparable, V any]() *Cache[K, V] {
	return &Cache[K, V]{at: map[K]int32{}, ring: make([]Entry[K, V], 1)}
}

// Len is the number of keys.
func (c *Cache[K, V]) Len() int { return len(c.at) }

// Has reports whether a key is there.
func (c *Cache[K, V]) Has(key K) bool {
	_, ok := c.at[key]
	return ok
}

// Touch makes a key the most recently used, and adds it with a value if it was not known.
func (c *Cache[K, V]) Touch(key K, value V) (known bool) {
	i, known := c.at[key]
	if known {
		c.unlink(i)
	} else {
		i = c.slot()
		c.ring[i] = Entry[K, V]{Key: key, Value: value}
		c.at[key] = i
	}
	head := c.ring[0].next
	c.ring[i].prev, c.ring[i].next = 0, head
	c.ring[head].prev, c.ring[0].next = i, i
	return known
}

func (c *Cache[K, V]) slot() int32 {
	if n := len(c.free); n > 0 {
		i := c.free[n-1]
		c.free = c.free[:n-1]
		return i
	}
	c.ring = append(c.ring, Entry[K, V]{})
	return int32(len(c.ring) - 1)
}

func (c *Cache[K, V]) unlink(i int32) {
	e := &c.ring[i]
	c.ring[e.prev].next, c.ring[e.next].prev = e.next, e.prev
}

// Oldest returns the n least recently used entries, the oldest first. There must be that many.
func (c *Cache[K, V]) Oldest(n int) (entries []Entry[K, V]) {
	for i := c.ring[0].prev; len(entries) < n; i = c.ring[i].prev {
		entries = append(entries, c.ring[i])
	}
	return entries
}

// Drop removes a key, which is there.
func (c *Cache[K, V]) Drop(key K) {
	i := c.at[key]
	c.unlink(i)
	delete(c.at, key)
	c.free = append(c.free, i)
}
