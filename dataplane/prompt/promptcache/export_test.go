package promptcache

import "unsafe"

// ShardSize lets a test see that shards keep their locks on lines of their own.
const ShardSize = unsafe.Sizeof(shard{})

// Check returns an error in the bookkeeping of an idle cache, "" without one.
func (c *Cache) Check() string {
	for i := range c.shards {
		s := &c.shards[i]
		var bytes int64
		mapped := 0
		for _, p := range s.ring {
			bytes += fixedBytes + p.cost
			if s.pieces[p.key] == p {
				mapped++
			}
			if held := int64(cap(p.raw) + 4*cap(p.ids) + 8*cap(p.hashes)); held != p.cost {
				return "a piece's cost is not its memory"
			}
		}
		switch {
		case mapped != len(s.pieces):
			return "the map has pieces that the ring has not, or under another key"
		case bytes != s.bytes:
			return "bytes are miscounted"
		case s.bytes > s.max:
			return "bytes are above the bound"
		}
	}
	return ""
}
