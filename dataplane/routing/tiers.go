package routing

import (
	"slices"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// TierDirectory knows the blocks in the KV tiers of nodes.
type TierDirectory interface {
	// Stored appends the leading part of a prompt in each tier, each kind of each place at most
	// once, or nothing where no tier has any. Each choice for a prompt with token ids calls it:
	// it must not block or allocate. In doubt it says less. It keeps no part of q.
	Stored(dst []TierMatch, q TierQuery) []TierMatch
}

// TierQuery is a prompt as tiers know it.
type TierQuery struct {
	Model  string // as workers name it
	Tokens []uint32
	LoRA   string
	Salt   string
}

// TierMatch is the leading part of a prompt in one node's tier, in pages of one kind.
type TierMatch struct {
	Place  uint32 // of the node, as in worker.Place; not 0
	Tokens int    // 0: none, but the node's engines could take pages of other nodes
	Kind   uint32 // form of the pages: only engines of the same kind can read them
	Open   bool   // the node's engines read this kind, and none of the model reads another one
}

const (
	// hostSpeed is the assumed speed from a node's tier into an engine's host memory, in bytes
	// per second, where none is measured.
	hostSpeed = 12e9
	// gpuSpeed is the assumed speed from there to the GPU: PCIe 4.0 with 16 lanes.
	gpuSpeed = 24e9
)

// secondsPerByte is the time of a byte from a place's tier into an engine there. A measured
// speed counts only where the engine's bytes per token are known: small pages are slow per
// byte, and the assumed speed is for large ones.
func secondsPerByte(links *policy.Links, place uint32, info *worker.Info) float64 {
	if speed := links.Tier(place); speed > 0 && info.TokenBytes > 0 {
		return 1/speed + 1/gpuSpeed
	}
	return 1/hostSpeed + 1/gpuSpeed
}

// tokenBytes is the KV bytes of a token.
func tokenBytes(info *worker.Info) float64 {
	if info.TokenBytes > 0 {
		return info.TokenBytes
	}
	return policy.UsualBytes
}

// usableTokens returns the part of n leading tokens that an engine takes from its cache: whole
// pages, without the last token.
func usableTokens(p *Prompt, info *worker.Info, n int) int {
	n = min(n, p.Len()-1)
	if page := pageSize(info); page > 0 {
		n -= n % page
	}
	return max(n, 0)
}

// tierMatches are the tiers with a part of a prompt.
type tierMatches struct {
	found   []TierMatch // by length, the longest last
	byPlace []int32     // 1 + index of the open match at that place; zero between choices
}

// find fills t for a prompt on its way to one of ranks.
func (t *tierMatches) find(dir TierDirectory, p *Prompt, ranks []*worker.Rank) {
	t.found = t.found[:0]
	if dir == nil || !p.Exact || p.Opaque || p.ExtraKey != "" || len(ranks) == 0 {
		return
	}
	t.found = dir.Stored(t.found, TierQuery{Model: ranks[0].Worker.Info().Model(), Tokens: p.Tokens, LoRA: p.LoRA, Salt: p.Salt})
	byLength := func(a, b TierMatch) int { return a.Tokens - b.Tokens }
	if !slices.IsSortedFunc(t.found, byLength) {
		slices.SortFunc(t.found, byLength)
	}
}

// credit fills the candidates of ranks with the tokens that they could fetch: from the tier of
// their node, and behind these from the peer that delivers first. A peer counts only over a
// measured link, and only for engines with a tier of the same kind: in doubt its tokens are
// computed.
func (t *tierMatches) credit(candidates []policy.Candidate, ranks []*worker.Rank, p *Prompt, links *policy.Links) {
	if len(t.found) == 0 {
		return
	}
	for i := range t.found {
		if m := &t.found[i]; m.Open {
			for len(t.byPlace) <= int(m.Place) {
				t.byPlace = append(t.byPlace, 0)
			}
			t.byPlace[m.Place] = int32(i) + 1
		}
	}
	for i, rank := range ranks {
		if place := rank.Worker.NodeNumber(); place != 0 && int(place) < len(t.byPlace) && t.byPlace[place] != 0 {
			t.creditOne(&candidates[i], p, rank.Worker.Info(), &t.found[t.byPlace[place]-1], links)
		}
	}
	clear(t.byPlace)
}

// creditOne is credit for one candidate; own is the match at its place.
func (t *tierMatches) creditOne(c *policy.Candidate, p *Prompt, info *worker.Info, own *TierMatch, links *policy.Links) {
	bytes, here, read := tokenBytes(info), c.Cached, secondsPerByte(links, own.Place, info)
	if n := usableTokens(p, info, own.Tokens); n > here {
		c.Tier = int32(n - here)
		c.TierTime = float32(float64(n-here) * bytes * read)
		here = n
	}
	for i := len(t.found) - 1; i >= 0; i-- {
		m := &t.found[i]
		n := usableTokens(p, info, m.Tokens)
		if n-here < max(1, int(c.Remote)) {
			return // the next ones are no longer
		}
		hop := links.Between(m.Place, own.Place)
		if m.Place == own.Place || m.Kind != own.Kind || hop.Broken || hop.Speed <= 0 {
			continue
		}
		// The longest match wins; of equal ones the fastest link.
		if took := float32(float64(n-here) * bytes * (1/hop.Speed + read)); c.Remote == 0 || took < c.RemoteTime {
			c.Remote, c.RemoteTime = int32(n-here), took
		}
	}
}

// source returns the place of the peer that has upto leading tokens of a prompt and, of
// several, the fastest link to the rank.
func (t *tierMatches) source(p *Prompt, rank *worker.Rank, upto int, links *policy.Links) (from uint32) {
	place, info := rank.Worker.NodeNumber(), rank.Worker.Info()
	own := slices.IndexFunc(t.found, func(m TierMatch) bool { return m.Place == place && m.Open })
	best := 0.0
	for i := range t.found {
		m := &t.found[i]
		hop := links.Between(m.Place, place)
		if m.Place == place || hop.Broken || hop.Speed <= best || (own >= 0 && m.Kind != t.found[own].Kind) {
			continue
		}
		if usableTokens(p, info, m.Tokens) >= upto {
			from, best = m.Place, hop.Speed
		}
	}
	return from
}
