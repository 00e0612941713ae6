package policy

import "math"

// Link is what moving a prompt's KV between two ranks costs, in seconds a token.
type Link struct {
	Same  float64 // both on one node
	Other float64 // on two
}

// UsualLink stands in where no speed is known: 128 KiB a token (8 KV heads of 128 in 32 layers, 16 bits) at 50 GB/s within a
// node and 12.5 GB/s, a 100 Gb/s card, between nodes.
var UsualLink = Link{Same: 2.6e-6, Other: 10.5e-6}

// PairCandidates are the ranks that a pair is chosen from. Of a decode candidate, Cached are leading prompt tokens that need not be
// sent to it, and Used counts what was promised to requests on their way.
type PairCandidates struct {
	Prefill, Decode []Candidate
	// PrefillNodes and DecodeNodes number the node of each candidate, from 0 without large gaps.
	PrefillNodes, DecodeNodes []uint32
	Link                      Link
	// Links, if set, has what was measured between the places of candidates, which comes before Link; Bytes is what KV takes of a token, 0
	// is UsualBytes.
	Links                       *Links
	PrefillPlaces, DecodePlaces []uint32
	Bytes                       float64
}

// DecodeCost is what the kv policy expects of a decode rank, in seconds.
type DecodeCost struct {
	Transfer float64 `json:"transfer"` // of what the rank lacks of the prompt's KV
	Room     float64 `json:"room"`     // until running requests have given enough KV pages and a place in the batch back
	Step     float64 `json:"step"`     // that the answer takes longer for those decoded beside it
}

// Total is the sum that the choice is made by.
func (c DecodeCost) Total() float64 { return c.Transfer + c.Room + c.Step }

// TTFT is what the leg adds to the time to the first token.
func (c DecodeCost) TTFT() float64 { return c.Transfer + c.Room }

const (
	// stepSeconds is what a full batch adds to an answer of 350 tokens, the mean that poolSeconds is by: a step takes 30 ms there
	// and about half of that in an empty one, which reads the weights only. KV that is read and requests that are computed each
	// make half of the difference.
	stepSeconds = 5.0
	// usualMost stands for the requests that a decode rank runs at once where it has not said.
	usualMost = 256
	// tieSeconds is the difference in cost below which two decode ranks are equal: half of what a request adds to a batch of
	// usualMost, and less than the jitter of a step.
	tieSeconds = 0.005
)

// prefillKV is the kv policy for prefill ranks. They run no decode steps that a prompt could wait for, and requests leave
// them as fast as prompts are computed, which the queue tells: a pool there is not kept for the seconds of an answer.
func prefillKV(p KV) KV {
	p.Without |= TermBatch | TermPool
	return p
}

// PickPair picks a prefill and a decode rank; their costs are each's own.
//
// For kv it is the pair with the least sum of the prefill's predicted time, the transfer and the decode's cost, near-ties at
// random: other links to other nodes make a prefill rank worth what the best decode rank for it is. It takes the time of
// P + D candidates, not of P × D, since a link has one of two speeds; where links were measured, of nodes with prefill ranks × D. A broken
// link holds its pairs back. Other policies pick both by themselves, and the decode rank anew where the link is broken.
func PickPair(p Policy, req Request, l *PairCandidates) (prefill, decode Choice) {
	kv, ok := Unwrap(p).(KV)
	if !ok {
		second := req
		second.Seed = mix(req.Seed) // else a drawn prefill rank would have one decode rank
		prefill, decode = p.Pick(req, l.Prefill), Unwrap(p).Pick(second, l.Decode)
		return prefill, l.around(prefill.Index, decode)
	}
	if max(len(l.Prefill), len(l.Decode)) > fewScores {
		return pickPairOfMany(p, prefillKV(kv), &req, l)
	}
	var m pairRoom
	return pickPair(p, prefillKV(kv), m.first[:0], m.after[:0], m.onward[:0], m.nodes[:0], &req, l)
}

// pairRoom is memory for a choice among few ranks: their numbers of nodes are small, but those of other ranks are among them.
type pairRoom struct {
	first, after, onward [fewScores]float64
	nodes                [4 * fewScores]float64
}

// pickPairOfMany has the room for a large fleet, which takes longer to clear than to choose among a few.
func pickPairOfMany(p Policy, kv KV, req *Request, l *PairCandidates) (prefill, decode Choice) {
	var first, after, onward, nodes [mostScores]float64
	return pickPair(p, kv, first[:0], after[:0], onward[:0], nodes[:0], req, l)
}

// pickPair appends to first, after, onward and nodes, which are empty memory.
func pickPair(p Policy, kv KV, first, after, onward, nodes []float64, req *Request, l *PairCandidates) (prefill, decode Choice) {
	costs := decodeScores(after, req, l.Decode)
	prefill = pickPrefill(p, kv, first, onward, nodes, costs, req, l)
	for j := range costs {
		costs[j] += l.transfer(prefill.Index, j, req.Tokens)
	}
	tie := tieSeconds
	if kv.Without&TermTies != 0 {
		tie = 0
	}
	return prefill, lowest(costs, mix(req.Seed), tie, "least of transfer, wait for room and time beside its batch")
}

// pickPrefill picks the prefill rank of the best pair. after are the decode ranks' costs without the transfer; first, onward and
// nodes are memory.
func pickPrefill(p Policy, kv KV, first, onward, nodes, after []float64, req *Request, l *PairCandidates) Choice {
	if _, sticky := p.(Sticky); sticky {
		if i := home(req, l.Prefill); i >= 0 {
			return Choice{Index: i, Cost: float64(l.Prefill[i].InFlight), Why: "its session's rank"}
		}
	}
	first = kv.scores(first, req, l.Prefill)
	if kv.Temperature > 0 {
		return sample(first, req.Seed, kv.Temperature)
	}
	tie := tieTokens * survey(l.Prefill).token
	if kv.Without&TermTies != 0 {
		tie = 0
	}
	if l.Link.Same == l.Link.Other && l.Links == nil {
		return lowest(first, req.Seed, tie, kvWhy)
	}
	onward = l.onward(onward, nodes, after, req.Tokens)
	for i := range first {
		first[i] += onward[i]
	}
	choice := lowest(first, req.Seed, tie, "lowest predicted time to first token, with the transfer")
	choice.Cost -= onward[choice.Index]
	return choice
}

// onward appends, for each prefill candidate, the least cost of a decode rank for it, transfer included.
func (l *PairCandidates) onward(dst, nodes, after []float64, tokens int) []float64 {
	if l.Links != nil {
		return l.onwardByPlace(dst, nodes, after, tokens)
	}
	other, same := l.reach(nodes, after, float64(tokens))
	for _, node := range l.PrefillNodes {
		dst = append(dst, min(other, same[node]))
	}
	return dst
}

// onwardByPlace looks at all decode candidates once for each place that has prefill ranks; places is memory for what was found.
func (l *PairCandidates) onwardByPlace(dst, places, after []float64, tokens int) []float64 {
	for i, place := range l.PrefillPlaces {
		for len(places) <= int(place) {
			places = append(places, -1)
		}
		least := places[place]
		if least < 0 || place == 0 { // of unknown places each may be on another node
			least = math.Inf(1)
			for j := range after {
				least = min(least, after[j]+l.transfer(i, j, tokens))
			}
			places[place] = least
		}
		dst = append(dst, least)
	}
	return dst
}

// reach returns what lets a prefill rank be judged by one comparison instead of one for each decode rank: a link has one of
// two speeds, so the best decode rank for it is either the best of all over the slower one or the best of its own node.
//
// It returns the least cost of a decode rank, transfer included, over any link and, by node, over a node's own.
func (l *PairCandidates) reach(nodes, after []float64, tokens float64) (other float64, same []float64) {
	last := uint32(0)
	for _, n := range l.PrefillNodes {
		last = max(last, n)
	}
	for range last + 1 {
		nodes = append(nodes, math.Inf(1))
	}
	other = math.Inf(1)
	for j, cost := range after {
		sent := max(tokens-float64(l.Decode[j].Cached), 0)
		other = min(other, cost+l.Link.Other*sent)
		if n := l.DecodeNodes[j]; n <= last {
			nodes[n] = min(nodes[n], cost+l.Link.Same*sent)
		}
	}
	return other, nodes
}

// around returns another decode rank where the link to the chosen one is broken: the next whose link is not, or the chosen one.
func (l *PairCandidates) around(prefill int, decode Choice) Choice {
	if l.Links == nil || !l.Broken(prefill, decode.Index) {
		return decode
	}
	for k := 1; k < len(l.Decode); k++ {
		if j := (decode.Index + k) % len(l.Decode); !l.Broken(prefill, j) {
			return Choice{Index: j, Cost: float64(l.Decode[j].InFlight), Why: "the next, for the link to the first choice is broken"}
		}
	}
	return decode
}

// DecodeCosts appends the terms of each decode candidate's cost to dst, with the transfer from that prefill candidate.
func DecodeCosts(dst []DecodeCost, req Request, l *PairCandidates, prefill int) []DecodeCost {
	f := survey(l.Decode)
	for j := range l.Decode {
		c := &l.Decode[j]
		room, step := decodeCost(&f, &req, c)
		dst = append(dst, DecodeCost{Transfer: l.transfer(prefill, j, req.Tokens), Room: room, Step: step})
	}
	return dst
}

// decodeScores appends each decode candidate's cost without the transfer.
func decodeScores(dst []float64, req *Request, candidates []Candidate) []float64 {
	f := survey(candidates)
	for i := range candidates {
		room, step := decodeCost(&f, req, &candidates[i])
		dst = append(dst, room+step)
	}
	return dst
}

// decodeCost is what does not hang on the prefill rank. A pool of unknown size counts as full as the batch: what a rank has
// not told must not make it look empty.
func decodeCost(f *fleet, req *Request, c *Candidate) (room, step float64) {
	if c.Pool > 0 || c.Most > 0 {
		room = roomWait(f, c, max(float64(req.Tokens-c.Cached), 0)+float64(req.Output)) / c.share()
	}
	batch := float64(c.InFlight) / usualMost
	if c.Most > 0 {
		batch = float64(c.InFlight) / float64(c.Most)
	}
	pool := batch
	if c.Pool > 0 {
		pool = float64(c.Used) / float64(c.Pool)
	}
	step = stepSeconds / 2 * (batch + pool)
	if c.slowed() { // all of the step is slower, what an empty batch takes too
		step = (stepSeconds+step)/c.Weight - stepSeconds
	}
	return room, step
}

// PrefillCosts appends the terms of each prefill candidate's cost to dst.
func PrefillCosts(dst []Cost, p KV, req Request, candidates []Candidate) []Cost {
	return prefillKV(p).Costs(dst, req, candidates)
}

// PrefillScores appends what kv compares of each prefill candidate to dst: its cost, and that of the best decode rank for it.
func PrefillScores(dst []float64, p KV, req Request, l *PairCandidates) []float64 {
	from := len(dst)
	dst = prefillKV(p).scores(dst, &req, l.Prefill)
	for i, least := range l.onward(nil, nil, decodeScores(nil, &req, l.Decode), req.Tokens) {
		dst[from+i] += least
	}
	return dst
}
