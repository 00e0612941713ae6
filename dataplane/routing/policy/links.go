package policy

// Links are the measured links between places: nodes, numbered from 1; 0 is an unknown node.
// They do not change after they are published.
type Links struct {
	places int
	hops   []Hop // from × places + to, both from 0
	tiers  []float64
}

// Hop is one link, in one direction.
type Hop struct {
	Speed  float64 // bytes per second; 0 is unknown
	Broken bool    // the last transfer failed
}

// NewLinks returns unmeasured links between so many places.
func NewLinks(places int) *Links {
	return &Links{places: places, hops: make([]Hop, places*places), tiers: make([]float64, places)}
}

// SetTier sets the speed from a place's KV tier to its engines, in bytes per second.
func (l *Links) SetTier(place uint32, speed float64) {
	if place > 0 && int(place) <= l.places {
		l.tiers[place-1] = speed
	}
}

// Tier returns the speed of a place's KV tier; 0 where it is unmeasured, l is nil or the place
// unknown.
func (l *Links) Tier(place uint32) float64 {
	if l == nil || place == 0 || int(place) > l.places {
		return 0
	}
	return l.tiers[place-1]
}

// Set sets the link from one place to another.
func (l *Links) Set(from, to uint32, h Hop) {
	if at := l.index(from, to); at >= 0 {
		l.hops[at] = h
	}
}

// Between returns the link; the zero Hop where l is nil or a place unknown.
func (l *Links) Between(from, to uint32) Hop {
	if at := l.index(from, to); at >= 0 {
		return l.hops[at]
	}
	return Hop{}
}

func (l *Links) index(from, to uint32) int {
	if l == nil || from == 0 || to == 0 || int(from) > l.places || int(to) > l.places {
		return -1
	}
	return int(from-1)*l.places + int(to-1)
}

const (
	// UsualBytes is the KV bytes of a token where they are unknown: 8 KV heads of 128 in 32
	// layers, keys and values of 16 bits.
	UsualBytes = 128 << 10
	// brokenSeconds is the cost of a broken link: longer than any other wait, and finite, so
	// that the best of broken pairs is tried.
	brokenSeconds = 3600
)

// hop returns the transfer time of KV from a prefill candidate to a decode candidate: seconds
// per token, and fixed seconds.
func (l *PairCandidates) hop(prefill, decode int) (token, fixed float64) {
	token = l.Link.Other
	if l.DecodeHosts[decode] == l.PrefillHosts[prefill] {
		token = l.Link.Same
	}
	if l.Links == nil {
		return token, 0
	}
	h := l.Links.Between(l.PrefillNodes[prefill], l.DecodeNodes[decode])
	if h.Speed > 0 {
		bytes := l.Bytes
		if bytes <= 0 {
			bytes = UsualBytes
		}
		token = bytes / h.Speed
	}
	if h.Broken {
		fixed = brokenSeconds
	}
	return token, fixed
}

// transfer is the transfer time of a prompt's KV from a prefill candidate to a decode
// candidate.
func (l *PairCandidates) transfer(prefill, decode, tokens int) float64 {
	token, fixed := l.hop(prefill, decode)
	return token*max(float64(tokens-l.Decode[decode].Cached), 0) + fixed
}

// Broken reports whether the link from a prefill candidate to a decode candidate is broken.
func (l *PairCandidates) Broken(prefill, decode int) bool {
	_, fixed := l.hop(prefill, decode)
	return fixed > 0
}
