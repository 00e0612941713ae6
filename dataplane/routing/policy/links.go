package policy

// Links is what was measured between places: nodes, numbered from 1; 0 is a node of which nothing is known. It is not changed after it was
// given away.
type Links struct {
	places int
	hops   []Hop // from × places + to, both from 0
	tiers  []float64
}

// Hop is one link, in one direction.
type Hop struct {
	Speed  float64 // bytes a second; 0 is unknown
	Broken bool    // nothing could be moved
}

// NewLinks returns links between so many places, of which nothing is known.
func NewLinks(places int) *Links {
	return &Links{places: places, hops: make([]Hop, places*places), tiers: make([]float64, places)}
}

// SetTier notes how fast engines of a place get pages out of its KV tier, in bytes a second.
func (l *Links) SetTier(place uint32, speed float64) {
	if place > 0 && int(place) <= l.places {
		l.tiers[place-1] = speed
	}
}

// Tier returns that; 0 where nothing was measured, l is nil or the place unknown.
func (l *Links) Tier(place uint32) float64 {
	if l == nil || place == 0 || int(place) > l.places {
		return 0
	}
	return l.tiers[place-1]
}

// Set notes what was measured from one place to another.
func (l *Links) Set(from, to uint32, h Hop) {
	if at := l.index(from, to); at >= 0 {
		l.hops[at] = h
	}
}

// Between returns what was measured; nothing where l is nil or a place unknown.
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
	// UsualBytes is what KV takes of a token where that is unknown: 8 KV heads of 128 in 32 layers, keys and values of 16 bits.
	UsualBytes = 128 << 10
	// brokenSeconds holds a pair back whose link moves nothing: longer than anything that could be waited for instead, and finite, so that
	// among broken pairs the best one is tried.
	brokenSeconds = 3600
)

// hop is the way of KV from a prefill candidate to a decode candidate: seconds a token, and seconds that it costs anyway.
func (l *PairCandidates) hop(prefill, decode int) (token, fixed float64) {
	token = l.Link.Other
	if l.DecodeNodes[decode] == l.PrefillNodes[prefill] {
		token = l.Link.Same
	}
	if l.Links == nil {
		return token, 0
	}
	h := l.Links.Between(l.PrefillPlaces[prefill], l.DecodePlaces[decode])
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

// transfer is the time that a prompt's KV takes from a prefill candidate to a decode candidate.
func (l *PairCandidates) transfer(prefill, decode, tokens int) float64 {
	token, fixed := l.hop(prefill, decode)
	return token*max(float64(tokens-l.Decode[decode].Cached), 0) + fixed
}

// Broken reports whether nothing could be moved from a prefill candidate to a decode candidate.
func (l *PairCandidates) Broken(prefill, decode int) bool {
	_, fixed := l.hop(prefill, decode)
	return fixed > 0
}
