package sim

import (
	"fmt"
	"slices"

	"github.com/warmpath/warmpath/zmq/kvevent"
)

// naiveCache is the simplest prefix cache: a set of page chains, each with its last access and
// its locks, without a tree. Chains are grouped in the runs that SGLang's tree would have as
// nodes, because it evicts those whole.
type naiveCache struct {
	page  int
	clock int
	pages map[string]*naivePage // by the text of all tokens up to the page's end
}

type naivePage struct {
	parent string // "" at the root
	space  domain
	tokens []uint32
	run    int // pages of one run leave together
	used   int
	locks  int
}

func newNaiveCache(page int) *naiveCache {
	return &naiveCache{page: page, pages: make(map[string]*naivePage)}
}

func chainKey(s domain, tokens []uint32) string { return fmt.Sprint(s, tokens) }

// match returns the keys of the cached prefix's pages and marks them as used.
func (c *naiveCache) match(s domain, tokens []uint32) (path []string) {
	for n := c.page; n <= len(tokens); n += c.page {
		key := chainKey(s, tokens[:n])
		if c.pages[key] == nil {
			break
		}
		path = append(path, key)
	}
	if len(path) > 0 {
		c.cut(path[len(path)-1])
	}
	for _, key := range path {
		c.pages[key].used = c.clock
	}
	return path
}

// cut ends a run after page key; the rest becomes a run of its own. The whole run counts as
// used, as in SGLang.
func (c *naiveCache) cut(key string) {
	run := c.pages[key].run
	ahead := c.ancestors(key)
	c.clock++
	fresh := c.clock
	for k, p := range c.pages {
		if p.run == run {
			p.used = c.clock
			if !slices.Contains(ahead, k) {
				p.run = -fresh // no clock value of an insertion is negative
			}
		}
	}
}

// ancestors returns key and all pages above it.
func (c *naiveCache) ancestors(key string) (keys []string) {
	for ; key != ""; key = c.pages[key].parent {
		keys = append(keys, key)
	}
	return keys
}

// insert adds the whole pages of tokens; it returns their keys and the number of new ones.
func (c *naiveCache) insert(s domain, tokens []uint32) (path []string, added int) {
	tokens = tokens[:len(tokens)-len(tokens)%c.page]
	if len(tokens) == 0 {
		return nil, 0
	}
	path = c.match(s, tokens)
	c.clock++
	parent := ""
	if len(path) > 0 {
		parent = path[len(path)-1]
	}
	for n := (len(path) + 1) * c.page; n <= len(tokens); n += c.page {
		key := chainKey(s, tokens[:n])
		c.pages[key] = &naivePage{
			parent: parent, space: s, tokens: slices.Clone(tokens[:n]), run: c.clock, used: c.clock,
		}
		path, parent = append(path, key), key
		added++
	}
	return path, added
}

func (c *naiveCache) lock(path []string, by int) {
	for _, key := range path {
		c.pages[key].locks += by
	}
}

// evict removes whole unlocked runs at the end of chains, the least recently used first.
func (c *naiveCache) evict(want int) (freed int) {
	for freed < want {
		victim := c.victim()
		if victim == nil {
			break
		}
		for key, p := range c.pages {
			if p.run == victim.run {
				delete(c.pages, key)
				freed++
			}
		}
	}
	return freed
}

func (c *naiveCache) victim() (best *naivePage) {
	parents := make(map[int]bool) // runs that another run hangs on
	for _, p := range c.pages {
		if up := c.pages[p.parent]; up != nil && up.run != p.run {
			parents[up.run] = true
		}
	}
	for _, p := range c.pages {
		if p.locks == 0 && !parents[p.run] && (best == nil || p.used < best.used) {
			best = p
		}
	}
	return best
}

// locked returns the number of locked pages.
func (c *naiveCache) locked() (n int) {
	for _, p := range c.pages {
		if p.locks > 0 {
			n++
		}
	}
	return n
}

// hashes returns the published hashes of all pages, sorted.
func (c *naiveCache) hashes() (all []uint64) {
	for _, p := range c.pages {
		h := sglangHashes(p.tokens, c.page, p.space.salt)
		all = append(all, namespaced(h[len(h)-1], p.space.namespace()))
	}
	slices.Sort(all)
	return all
}

// sglangHashes returns the hashes of tokens' whole pages.
func sglangHashes(tokens []uint32, pageSize int, salt string) (hashes []uint64) {
	c := kvevent.NewChain(salt)
	for ; len(tokens) >= pageSize; tokens = tokens[pageSize:] {
		hashes = append(hashes, c.Next(tokens[:pageSize]))
	}
	return hashes
}
