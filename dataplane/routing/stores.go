package routing

import (
	"slices"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// Stores knows what the KV tiers of nodes hold.
type Stores interface {
	// Stored appends what they hold, each kind of each place at most once, or nothing where no tier holds anything. It is called for each
	// choice whose prompt is known by token ids and must not block or allocate; in doubt it says less. It keeps nothing of what it is asked.
	Stored(dst []Shelf, a Asked) []Shelf
}

// Asked is a prompt as tiers know it.
type Asked struct {
	Model  string // as workers name it
	Tokens []uint32
	LoRA   string
	Salt   string
}

// Shelf is what the tier of one place holds of a prompt in pages of one kind.
type Shelf struct {
	Place  uint32 // as in worker.Place; not 0
	Tokens int    // leading tokens of the prompt; 0: none, but its engines could take what others have
	Kind   uint32 // which form the pages have: only engines of the same kind can read them
	Open   bool   // the engines there read this kind, and none of the model another one
}

const (
	// hostSpeed is how fast pages go from a node's tier into an engine's host memory, in bytes a second, where nobody has measured it.
	hostSpeed = 12e9
	// gpuSpeed is from there to the GPU: PCIe 4.0 with 16 lanes. It stands for what nobody measures.
	gpuSpeed = 24e9
)

// tierTime is the seconds that a byte takes from a place's tier into an engine there. A measured speed counts only where it is known how many
// bytes an engine has of a token: small pages are slow for each byte, and what is usual are large ones.
func tierTime(links *policy.Links, place uint32, info *worker.Info) float64 {
	if speed := links.Tier(place); speed > 0 && info.TokenBytes > 0 {
		return 1/speed + 1/gpuSpeed
	}
	return 1/hostSpeed + 1/gpuSpeed
}

// shelved is the part of a Scratch that belongs to tiers.
type shelved struct {
	shelves []Shelf // by length, the longest last
	spots   []int32 // by place, 1 + index of the shelf that is open there; zero between picks
	looked  bool    // shelves are those of this choice already
}

// SetLinks publishes what was measured between places, for pairs and for pulls between tiers; nil is nothing.
func (r *Router) SetLinks(l *policy.Links) { r.links.Store(l) }

// Links returns what SetLinks published.
func (r *Router) Links() *policy.Links { return r.links.Load() }

// look finds what tiers hold of the prompt that s.ranks are chosen for.
func (r *Router) look(s *Scratch, p *Prompt) {
	s.shelves, s.looked = s.shelves[:0], true
	if r.Stores == nil || !p.Exact || p.Opaque || p.ExtraKey != "" || len(s.ranks) == 0 {
		return
	}
	s.shelves = r.Stores.Stored(s.shelves, Asked{Model: s.ranks[0].Worker.Info().Model(), Tokens: p.Tokens, LoRA: p.LoRA, Salt: p.Salt})
	if len(s.shelves) == 0 {
		return
	}
	if !r.tiered.Load() {
		r.tiered.Store(true)
	}
	byLength := func(a, b Shelf) int { return a.Tokens - b.Tokens }
	if !slices.IsSortedFunc(s.shelves, byLength) {
		slices.SortFunc(s.shelves, byLength)
	}
}

// shelve tells the candidates of s.ranks what they could fetch: from the tier of their node, and behind that from the peer whose tier gets it
// there first. A peer counts only by a link that was measured, and only for engines that have a tier which keeps pages of the same kind: in
// doubt, what it holds is computed.
func (r *Router) shelve(s *Scratch, p *Prompt) {
	if !s.looked {
		r.look(s, p)
	}
	s.looked = false
	if len(s.shelves) == 0 {
		return
	}
	for i := range s.shelves {
		if shelf := &s.shelves[i]; shelf.Open {
			for len(s.spots) <= int(shelf.Place) {
				s.spots = append(s.spots, 0)
			}
			s.spots[shelf.Place] = int32(i) + 1
		}
	}
	links := r.links.Load()
	for i, rank := range s.ranks {
		if place := rank.Worker.NodeNumber(); place != 0 && int(place) < len(s.spots) && s.spots[place] != 0 {
			s.fetchable(&s.candidates[i], p, rank.Worker.Info(), &s.shelves[s.spots[place]-1], links)
		}
	}
	clear(s.spots)
}

// fetchable tells a candidate what it could fetch; own is the shelf of its place.
func (s *Scratch) fetchable(c *policy.Candidate, p *Prompt, info *worker.Info, own *Shelf, links *policy.Links) {
	bytes, here, read := tokenBytes(info), c.Cached, tierTime(links, own.Place, info)
	if n := usable(p, info, own.Tokens); n > here {
		c.Tier = int32(n - here)
		c.TierTime = float32(float64(n-here) * bytes * read)
		here = n
	}
	for i := len(s.shelves) - 1; i >= 0; i-- {
		shelf := &s.shelves[i]
		n := usable(p, info, shelf.Tokens)
		if n-here < max(1, int(c.Remote)) {
			return // those that follow are no longer
		}
		hop := links.Between(shelf.Place, own.Place)
		if shelf.Place == own.Place || shelf.Kind != own.Kind || hop.Broken || hop.Speed <= 0 {
			continue
		}
		// The longest of them; of equal ones the fastest.
		if took := float32(float64(n-here) * bytes * (1/hop.Speed + read)); c.Remote == 0 || took < c.RemoteTime {
			c.Remote, c.RemoteTime = int32(n-here), took
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
