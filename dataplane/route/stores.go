package route

import (
	"github.com/warmpath/warmpath/dataplane/policy"
	"github.com/warmpath/warmpath/dataplane/worker"
)

// Stores knows what the KV tiers of nodes hold.
type Stores interface {
	// Stored appends what they hold, each place at most once. It is called for each choice whose prompt is known by token ids and must not
	// block or allocate; in doubt it says less. It keeps nothing of what it is asked.
	Stored(dst []Shelf, a Asked) []Shelf
}

// Asked is a prompt as tiers know it.
type Asked struct {
	Model  string // as workers name it
	Tokens []uint32
	LoRA   string
	Salt   string
}

// Shelf is what the tier of one place holds of a prompt.
type Shelf struct {
	Place  uint32 // as in worker.Place; not 0
	Tokens int    // leading tokens of the prompt
}

// tierSpeed is how fast pages go from a node's tier into an engine, in bytes a second: one copy in host memory and one to the GPU. It stands
// for what nobody measures.
const tierSpeed = 8e9

// shelved is the part of a Scratch that belongs to tiers.
type shelved struct {
	shelves []Shelf
}

// SetLinks publishes what was measured between places, for pairs and for pulls between tiers; nil is nothing.
func (r *Router) SetLinks(l *policy.Links) { r.links.Store(l) }

// Links returns what SetLinks published.
func (r *Router) Links() *policy.Links { return r.links.Load() }

// shelve tells the candidates of s.ranks what they could fetch: from the tier of their node, and behind that from the peer whose tier gets it
// there first. A peer counts only by a link that was measured: in doubt, what it holds is computed.
func (r *Router) shelve(s *Scratch, p *Prompt) {
	s.shelves = s.shelves[:0]
	if p.Exact && !p.Opaque && p.ExtraKey == "" {
		s.shelves = r.Stores.Stored(s.shelves, Asked{Model: s.ranks[0].Worker.Info().Model(), Tokens: p.Tokens, LoRA: p.LoRA, Salt: p.Salt})
	}
	links := r.links.Load()
	for i, rank := range s.ranks {
		c := &s.candidates[i]
		c.Tier, c.Remote, c.TierTime, c.RemoteTime = 0, 0, 0, 0
		place := rank.Worker.Place()
		if place == 0 || len(s.shelves) == 0 {
			continue
		}
		info := rank.Worker.Info()
		bytes, here := tokenBytes(info), c.Cached
		for _, shelf := range s.shelves {
			if n := usable(p, info, shelf.Tokens); shelf.Place == place && n > here {
				c.Tier = int32(n - here)
				c.TierTime = float32(float64(n-here) * bytes / tierSpeed)
				here = n
			}
		}
		for _, shelf := range s.shelves {
			hop, n := links.Between(shelf.Place, place), usable(p, info, shelf.Tokens)
			if shelf.Place == place || hop.Broken || hop.Speed <= 0 || n <= here {
				continue
			}
			// The longest of them; of equal ones the fastest.
			more, took := int32(n-here), float32(float64(n-here)*bytes*(1/hop.Speed+1/tierSpeed))
			if more > c.Remote || (more == c.Remote && took < c.RemoteTime) {
				c.Remote, c.RemoteTime = more, took
			}
		}
	}
}

// usable is how many of n leading tokens an engine takes from its cache: whole pages, and never the last token.
func usable(p *Prompt, info *worker.Info, n int) int {
	n = min(n, p.Len()-1)
	if page := pageSize(info); page > 0 {
		n -= n % page
	}
	return max(n, 0)
}

// tokenBytes is what KV takes of a token.
func tokenBytes(info *worker.Info) float64 {
	if info.TokenBytes > 0 {
		return info.TokenBytes
	}
	return policy.UsualBytes
}
