package policy

import "math"

// Link is the transfer time of a prompt's KV between two ranks, in seconds per token.
type Link struct {
	Same  float64 // both on one node
	Other float64 // on two
}

// UsualLink is the link where no speed is known: 128 KiB per token (8 KV heads of 128 in 32
// layers, 16 bits) at 50 GB/s within a node and 12.5 GB/s, a 100 Gb/s card, between nodes.
var UsualLink = Link{Same: 2.6e-6, Other: 10.5e-6}

// PairCandidates are the ranks that a pair is chosen from. Of a decode candidate, Cached are
// leading prompt tokens that need no transfer, and Used includes tokens promised to requests on
// their way.
type PairCandidates struct {
	Prefill, Decode []Candidate
	// PrefillHosts and DecodeHosts number the host of each candidate, from 0 without large
	// gaps.
	PrefillHosts, DecodeHosts []uint32
	Link                      Link
	// Links, if set, has the measured links between the nodes of candidates, which precede
	// Link; Bytes is the KV bytes of a token, 0 for UsualBytes.
	Links                     *Links
	PrefillNodes, DecodeNodes []uint32
	Bytes                     float64
}

// DecodeCost is the cost of a decode rank by the kv policy, in seconds.
type DecodeCost struct {
	Transfer float64 `json:"transfer"` // of the prompt's KV that the rank lacks
	Room     float64 `json:"room"`     // until running requests have freed pages and a place
	Step     float64 `json:"step"`     // that the answer takes longer for those decoded beside it
}

// Total is the sum that the choice is made by.
func (c DecodeCost) Total() float64 { return c.Transfer + c.Room + c.Step }

// TTFT is the decode leg's part of the time to first token.
func (c DecodeCost) TTFT() float64 { return c.Transfer + c.Room }

const (
	// stepShare is the delay of an answer in a full batch, in usual answers: a step takes 30 ms
	// there and about half of that in an empty one, which reads the weights only. KV reads and
	// running requests each make half of the difference.
	stepShare = 0.5
	// usualMost is the batch size of a decode rank that has told none.
	usualMost = 256
)

// PrefillWithout are the terms that kv leaves out for prefill ranks. They run no decode steps that
// a prompt could interrupt, and free their pool as fast as prompts are computed, which
// the queue term has.
const PrefillWithout = TermPool | TermStreams

// prefillKV is the kv policy for prefill ranks.
func prefillKV(p KV) KV {
	p.Without |= PrefillWithout
	return p
}

// PickPair picks a prefill and a decode rank; each has its own cost.
//
// The kv policy picks the pair with the lowest sum of predicted prefill time, transfer and
// decode cost: links to other nodes make a prefill rank worth as much as
// the best decode rank for it. It takes the time of P + D candidates, not of P x D, since a
// link has one of two speeds; with measured links, of nodes with prefill ranks x D. A broken
// link costs its pairs brokenSeconds. Other policies pick both ranks apart, and another decode
// rank where the link is broken.
func PickPair(p Policy, req Request, l *PairCandidates) (prefill, decode Choice) {
	kv, ok := Unwrap(p).(KV)
	if !ok {
		second := req
		// Else a drawn prefill rank would always have the same decode rank.
		second.Seed = mix(req.Seed)
		prefill, decode = p.Pick(req, l.Prefill), Unwrap(p).Pick(second, l.Decode)
		return prefill, l.around(prefill.Index, decode)
	}
	var m pairRoom
	first, after := grow(m.first[:0], len(l.Prefill)), grow(m.after[:0], len(l.Decode))
	return pickPair(p, prefillKV(kv), first, after, grow(m.onward[:0], len(l.Prefill)), m.nodes[:0], &req, l)
}

// pairRoom is memory for a choice among pairs. Numbers of nodes are small, but there are nodes
// of other ranks among them.
type pairRoom struct {
	first, after, onward [stackScores]float64
	nodes                [4 * stackScores]float64
}

// pickPair appends to first, after, onward and nodes, which are empty memory.
func pickPair(p Policy, kv KV, first, after, onward, nodes []float64, req *Request, l *PairCandidates) (prefill, decode Choice) {
	f := survey(req, l.Decode)
	costs := decodeScores(after, &f, req, l.Decode)
	prefill = pickPrefill(p, kv, first, onward, nodes, costs, req, l)
	for j := range costs {
		costs[j] += l.transfer(prefill.Index, j, req.Tokens)
	}
	return prefill, lowest(costs, mix(req.Seed), "least of transfer, wait for room and time beside its batch")
}

// pickPrefill picks the prefill rank of the best pair. after are the decode ranks' costs
// without the transfer; first, onward and nodes are memory.
func pickPrefill(p Policy, kv KV, first, onward, nodes, after []float64, req *Request, l *PairCandidates) Choice {
	if _, sticky := p.(Sticky); sticky {
		if i := sessionRank(req, l.Prefill); i >= 0 {
			return Choice{Index: i, Cost: float64(l.Prefill[i].InFlight), Reason: "its session's rank"}
		}
	}
	first = kv.scores(first, req, l.Prefill)
	if kv.Temperature > 0 {
		return sample(first, req.Seed, kv.Temperature)
	}
	if l.Link.Same == l.Link.Other && l.Links == nil {
		return lowest(first, req.Seed, kvWhy)
	}
	onward = l.onward(onward, nodes, after, req.Tokens)
	for i := range first {
		first[i] += onward[i]
	}
	choice := lowest(first, req.Seed, "lowest predicted time to first token, with the transfer")
	choice.Cost -= onward[choice.Index]
	return choice
}

// onward appends, for each prefill candidate, the lowest cost of a decode rank for it, transfer
// included.
func (l *PairCandidates) onward(dst, nodes, after []float64, tokens int) []float64 {
	if l.Links != nil {
		return l.onwardByPlace(dst, nodes, after, tokens)
	}
	other, same := l.reach(nodes, after, float64(tokens))
	for _, node := range l.PrefillHosts {
		dst = append(dst, min(other, same[node]))
	}
	return dst
}

// onwardByPlace compares all decode candidates once for each place with prefill ranks; places
// is memory for the results.
func (l *PairCandidates) onwardByPlace(dst, places, after []float64, tokens int) []float64 {
	for i, place := range l.PrefillNodes {
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

// reach returns the lowest cost of a decode rank, transfer included, over any link and, by
// node, over the links of that node. A link has one of two speeds, so the best decode rank for
// a prefill rank is one of these two.
func (l *PairCandidates) reach(nodes, after []float64, tokens float64) (other float64, same []float64) {
	last := uint32(0)
	for _, n := range l.PrefillHosts {
		last = max(last, n)
	}
	for range last + 1 {
		nodes = append(nodes, math.Inf(1))
	}
	other = math.Inf(1)
	for j, cost := range after {
		sent := max(tokens-float64(l.Decode[j].Cached), 0)
		other = min(other, cost+l.Link.Other*sent)
		if n := l.DecodeHosts[j]; n <= last {
			nodes[n] = min(nodes[n], cost+l.Link.Same*sent)
		}
	}
	return other, nodes
}

// around returns another decode rank where the link to the chosen one is broken: the next one
// with a link that is not, or the chosen one.
func (l *PairCandidates) around(prefill int, decode Choice) Choice {
	if l.Links == nil || !l.Broken(prefill, decode.Index) {
		return decode
	}
	for k := 1; k < len(l.Decode); k++ {
		if j := (decode.Index + k) % len(l.Decode); !l.Broken(prefill, j) {
			return Choice{Index: j, Cost: float64(l.Decode[j].InFlight), Reason: "the next, because the link to the first choice is broken"}
		}
	}
	return decode
}

// DecodeCosts appends the terms of each decode candidate's cost to dst, with the transfer from
// that prefill candidate.
func DecodeCosts(dst []DecodeCost, req Request, l *PairCandidates, prefill int) []DecodeCost {
	f := survey(&req, l.Decode)
	for j := range l.Decode {
		c := &l.Decode[j]
		room, step := decodeCost(&f, &req, c)
		dst = append(dst, DecodeCost{Transfer: l.transfer(prefill, j, req.Tokens), Room: room, Step: step})
	}
	return dst
}

// decodeScores appends each decode candidate's cost without the transfer.
func decodeScores(dst []float64, f *fleet, req *Request, candidates []Candidate) []float64 {
	for i := range candidates {
		room, step := decodeCost(f, req, &candidates[i])
		dst = append(dst, room+step)
	}
	return dst
}

// decodeCost is the part of a decode rank's cost that does not depend on the prefill rank. A
// pool of unknown size counts as full as the batch, so that a silent rank does not look empty.
func decodeCost(f *fleet, req *Request, c *Candidate) (room, step float64) {
	if c.Pool > 0 || c.MaxRunning > 0 {
		room = roomWait(f, c, max(float64(req.Tokens-c.Cached), 0)+float64(req.Output)) / c.share()
	}
	batch := float64(c.InFlight) / usualMost
	if c.MaxRunning > 0 {
		batch = float64(c.InFlight) / float64(c.MaxRunning)
	}
	pool := batch
	if c.Pool > 0 {
		pool = float64(c.Used) / float64(c.Pool)
	}
	full := stepShare * f.answer
	step = full / 2 * (batch + pool)
	if c.slowed() { // all of the step is slower, also of an empty batch
		step = (full+step)/c.Weight - full
	}
	return room, step
}

// PrefillCosts appends the terms of each prefill candidate's cost to dst.
func PrefillCosts(dst []Cost, p KV, req Request, candidates []Candidate) []Cost {
	return prefillKV(p).Costs(dst, req, candidates)
}

// PrefillScores appends the numbers that kv compares of each prefill candidate: its cost, and
// the cost of the best decode rank for it.
func PrefillScores(dst []float64, p KV, req Request, l *PairCandidates) []float64 {
	from, f := len(dst), survey(&req, l.Decode)
	dst = prefillKV(p).scores(dst, &req, l.Prefill)
	for i, least := range l.onward(nil, nil, decodeScores(nil, &f, &req, l.Decode), req.Tokens) {
		dst[from+i] += least
	}
	return dst
}
