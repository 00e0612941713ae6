package selfcheck

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// window is a copy of the last requests of one model, in the order of their arrivals.
type window struct {
	model    string
	block    int // tokens
	requests []request
	paths    [][]run // of each request's prompt, from its beginning; nil: unknown tokens
	counted  int     // the first request that counts; those before warm caches up
	end      int64   // unix nanoseconds: the arrival of the last one
}

// run is a part of a prompt that is one node of the history.
type run struct {
	node   int32
	blocks int32
}

// Parts of a window.
const (
	// warmShare of a window's requests warm the caches up.
	warmShare = 1.0 / 3
	// modelShare of the prompt tokens must be of one model: the policy is one for all models.
	modelShare = 0.8
)

// window returns the last requests that arrived before the slowest twentieth of the answers began:
// of later ones those with long answers are missing. why says why there is no window.
func (h *history) window(most int, since int64) (w *window, why string) {
	d, share := h.busiest()
	if share < modelShare {
		return nil, "no model has 80 % of the prompt tokens"
	}
	w = &window{model: d.model, block: d.block}
	var took []time.Duration
	for i := h.n - 1; i >= 0 && len(took) < most*5/4; i-- {
		if r := h.at(i); h.nodes[r.end].domain == d {
			w.requests = append(w.requests, *r)
			took = append(took, r.took)
		}
	}
	if len(took) == 0 {
		return nil, "there are no requests"
	}
	slices.SortFunc(w.requests, func(a, b request) int { return cmp.Compare(a.at, b.at) })
	slices.Sort(took)
	last := w.requests[len(w.requests)-1]
	until := last.at + int64(last.took-took[len(took)*19/20])
	n, _ := slices.BinarySearchFunc(w.requests, until, func(r request, at int64) int { return cmp.Compare(r.at, at+1) })
	w.requests = w.requests[max(n-most, 0):n]
	if len(w.requests) == 0 {
		return nil, "no request is long enough ago"
	}
	w.end = w.requests[len(w.requests)-1].at
	changed, _ := slices.BinarySearchFunc(w.requests, since, func(r request, at int64) int { return cmp.Compare(r.at, at) })
	w.counted = max(int(warmShare*float64(len(w.requests))), changed)
	w.paths = make([][]run, len(w.requests))
	for i := range w.requests {
		if w.requests[i].known {
			w.paths[i] = h.path(w.requests[i].end)
		}
	}
	return w, ""
}

// busiest returns the domain with the most prompt tokens, and its share of all.
func (h *history) busiest() (d domain, share float64) {
	sums, all := make(map[domain]int64), int64(0)
	for i := range h.n {
		r := h.at(i)
		sums[h.nodes[r.end].domain] += int64(r.input)
		all += int64(r.input)
	}
	most := int64(-1)
	for key, sum := range sums {
		if sum > most || sum == most && key.model < d.model {
			d, most = key, sum
		}
	}
	return d, float64(most) / float64(max(all, 1))
}

// path returns the runs from the root to a node.
func (h *history) path(at int32) []run {
	depth := 0
	for n := at; h.nodes[n].parent >= 0; n = h.nodes[n].parent {
		depth++
	}
	path := make([]run, depth)
	for ; depth > 0; at = h.nodes[at].parent {
		depth--
		path[depth] = run{at, int32(len(h.nodes[at].ids))}
	}
	return path
}

// known returns the share of prompt tokens in prompts of known tokens.
func (w *window) known() float64 {
	var all, known int64
	for i := range w.requests {
		all += int64(w.requests[i].input)
		if w.requests[i].known {
			known += int64(w.requests[i].input)
		}
	}
	return float64(known) / float64(max(all, 1))
}

// observed sums up the answers to the counted requests.
func (w *window) observed() (o observed) {
	var ttft, latency float64
	var prompt, cached int64
	for i := w.counted; i < len(w.requests); i++ {
		r := &w.requests[i]
		if r.streamed {
			o.Streamed++
			ttft += r.ttft.Seconds()
			latency += r.took.Seconds()
		}
		if r.cached >= 0 && r.known {
			prompt += int64(r.input)
			cached += int64(r.cached)
		}
	}
	o.TTFT, o.Latency = ttft/float64(max(o.Streamed, 1)), latency/float64(max(o.Streamed, 1))
	o.Hits, o.Counted = float64(cached)/float64(max(prompt, 1)), prompt > 0
	return o
}

// observed are the answers that clients had.
type observed struct {
	Streamed      int     // requests with a time to the first token
	TTFT, Latency float64 // their means in seconds
	Hits          float64 // share of the prompt tokens that caches had
	Counted       bool    // Hits is known
}

// knownShare of the prompt tokens must be known.
const knownShare = 0.8

// tooSmall says why a window proves nothing.
func (w *window) tooSmall(need int) string {
	if known := w.known(); known < knownShare {
		return fmt.Sprintf("the tokens of %.0f %% of the prompts are not known", 100*(1-known))
	}
	if n := w.observed().Streamed; n < need {
		return fmt.Sprintf("%d streamed answers of %d requests are too few, %d are needed", n, len(w.requests)-w.counted, need)
	}
	return ""
}
