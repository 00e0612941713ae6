package selfcheck

import (
	"cmp"
	"slices"
	"time"

	"github.com/warmpath/warmpath/bench/policies"
)

// trace is a window as the simulator takes it.
type trace struct {
	requests []policies.Request
	// own is the place of each of the window's requests in requests. The others stand for other
	// routers' traffic, or fill caches beforehand.
	own []int
}

// Bits of a segment's id: the part of its node below, the copy above.
const (
	partBits  = 2
	uniqueBit = 1 << 40 // prompts of unknown tokens, by their place in the window
	copyShift = 44
)

// segmentID names a part of a node: all of it (0), or what lies before, in and behind an answer.
func segmentID(node int32, part int) uint64 { return (uint64(node)+1)<<partBits | uint64(part) }

// cut is the place of an answer in a node: later prompts repeat it there.
type cut struct {
	from, to int32 // tokens
	found    bool
}

// tracer makes traces of a window.
type tracer struct {
	*window
	cuts    map[int32]cut // by node
	answers []int32       // of each request, the node with its answer; -1: none
	pace    func() error
}

// newTrace makes a trace. rate is the tokens that all ranks compute a second, output the tokens of
// an answer whose length is unknown, by its time. Of several routers the others' traffic is assumed
// to be like this one's, of other sessions, and not in step with it: a turn of the window for each.
func newTrace(w *window, routers int, rate float64, step time.Duration, pace func() error) (*trace, error) {
	t := tracer{window: w, cuts: make(map[int32]cut), answers: make([]int32, len(w.requests)), pace: pace}
	if err := t.findAnswers(); err != nil {
		return nil, err
	}
	before, err := t.earlier()
	if err != nil {
		return nil, err
	}
	var all []placed
	at := time.Duration(0)
	for _, r := range before {
		r.At = at
		at += time.Duration(float64(routers*r.Input()) / (rate * earlierLoad) * float64(time.Second))
		for k := range routers {
			all = append(all, placed{copyOf(r, k), -1})
		}
	}
	begin := w.requests[0].at
	span := w.end - begin + 1
	for i := range w.requests {
		if err := pace(); err != nil {
			return nil, err
		}
		r := t.request(i, step)
		for k := range routers {
			c, own := copyOf(r, k), i
			c.At = at + time.Duration((w.requests[i].at-begin+span*int64(k)/int64(routers))%span)
			if k > 0 {
				own = -1
			}
			all = append(all, placed{c, own})
		}
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.At, b.At) })
	out := &trace{requests: make([]policies.Request, len(all)), own: make([]int, len(w.requests))}
	for i := range all {
		out.requests[i] = all[i].Request
		if own := all[i].own; own >= 0 {
			out.own[own] = i
		}
	}
	return out, nil
}

// placed is a request with its place in the window, -1 where it is none of the window's.
type placed struct {
	policies.Request
	own int
}

// earlierLoad is the load at which caches are filled beforehand: without a queue, the policy
// spreads the prompts as it likes.
const earlierLoad = 0.25

// copyOf returns the request of the k-th router.
func copyOf(r policies.Request, k int) policies.Request {
	if k == 0 {
		return r
	}
	shift := uint64(k) << copyShift
	r.Prompt = slices.Clone(r.Prompt)
	for i := range r.Prompt {
		r.Prompt[i].ID += shift
	}
	if r.Answer != 0 {
		r.Answer += shift
	}
	return r
}

// request returns request i without its time.
func (t *tracer) request(i int, step time.Duration) policies.Request {
	r := &t.requests[i]
	out := policies.Request{Output: t.output(r, step)}
	if t.paths[i] == nil {
		out.Prompt = []policies.Segment{{ID: uniqueBit | uint64(i)<<partBits, Tokens: int(r.input)}}
		return out
	}
	path, tokens := t.paths[i], int(r.input)
	if n := t.answers[i]; n >= 0 {
		// The prompt's last block is the beginning of the block that goes on with the answer.
		whole := tokens / t.block * t.block
		out.Prompt = t.segments(nil, path, whole)
		if part := tokens - whole; part > 0 {
			out.Prompt = append(out.Prompt, policies.Segment{ID: segmentID(n, 1), Tokens: part})
		}
		out.Answer = segmentID(n, 2)
		return out
	}
	out.Prompt = t.segments(nil, path, tokens)
	return out
}

// output is the length of an answer, by its time where nobody counted it.
func (t *tracer) output(r *request, step time.Duration) int {
	if r.output > 0 {
		return int(r.output)
	}
	return 1 + int(max(r.took-r.ttft, 0)/step)
}

// segments appends the first tokens of a path.
func (t *tracer) segments(dst []policies.Segment, path []run, tokens int) []policies.Segment {
	for _, run := range path {
		n := min(int(run.blocks)*t.block, tokens)
		if n <= 0 {
			break
		}
		tokens -= n
		c := t.cuts[run.node]
		if !c.found {
			dst = append(dst, policies.Segment{ID: segmentID(run.node, 0), Tokens: n})
			continue
		}
		at := 0
		for part, upto := range [...]int{int(c.from), int(c.to), n} {
			if upto = min(upto, n); upto > at {
				dst = append(dst, policies.Segment{ID: segmentID(run.node, 1+part), Tokens: upto - at})
				at = upto
			}
		}
	}
	return dst
}

// findAnswers finds, for each request, the first later one whose prompt goes on behind its own: its
// answer comes next there, unless a template changes it. The observed hits say which: prompts that
// found the earlier one in a cache found the answer too, or did not.
func (t *tracer) findAnswers() error {
	ends := make(map[int32]int32) // last whole run of a prompt to the request
	found, missed := 0, 0
	for i := range t.requests {
		if err := t.pace(); err != nil {
			return err
		}
		t.answers[i] = -1
		path := t.paths[i]
		for k, run := range path {
			if k+1 == len(path) {
				break
			}
			from, ok := ends[run.node]
			if !ok {
				continue
			}
			a, next := &t.requests[from], path[k+1]
			if a.at+int64(a.took) > t.requests[i].at || t.answers[from] >= 0 {
				continue
			}
			delete(ends, run.node)
			part := int32(int(a.input) % t.block)
			to := min(part+max(a.output, 1), next.blocks*int32(t.block))
			if a.output == 0 || t.cuts[next.node].found || to <= part {
				continue
			}
			t.answers[from], t.cuts[next.node] = next.node, cut{part, to, true}
			switch cached := t.requests[i].cached; {
			case cached > a.input+(to-part)/2:
				found++
			case cached >= a.input/int32(t.block)*int32(t.block):
				missed++
			}
		}
		if n := t.wholeEnd(i); n >= 0 {
			ends[n] = int32(i)
		}
	}
	if found <= missed {
		clear(t.cuts)
		for i := range t.answers {
			t.answers[i] = -1
		}
	}
	return nil
}

// wholeEnd returns the node at which the whole blocks of a prompt end; -1 where none ends there.
func (t *tracer) wholeEnd(i int) int32 {
	path, input := t.paths[i], int(t.requests[i].input)
	if len(path) == 0 {
		return -1
	}
	last := path[len(path)-1]
	if input%t.block == 0 {
		return last.node
	}
	if last.blocks == 1 && len(path) > 1 {
		return path[len(path)-2].node
	}
	return -1
}

// earlier returns a request for each prompt that was found in a cache although no request of the
// window had brought it there. The last one needed comes first, so that the first one needed is the
// last to be evicted.
func (t *tracer) earlier() (all []policies.Request, err error) {
	seen, answers := make(map[int32]bool), make(map[int32]int) // nodes, and answers behind them
	for i := range t.requests {
		if err := t.pace(); err != nil {
			return nil, err
		}
		r, had, last, path := &t.requests[i], 0, int32(-1), t.paths[i]
		for _, run := range path {
			if !seen[run.node] {
				break
			}
			had += int(run.blocks) * t.block
			last = run.node
		}
		if answer, ok := answers[last]; ok && last >= 0 { // of a prompt that ended here
			had += answer + t.block
		}
		if cached := min(int(r.cached), int(r.input)-1) / t.block * t.block; cached > had {
			all = append(all, policies.Request{Prompt: t.segments(nil, path, cached), Output: 1})
		}
		for _, run := range path {
			seen[run.node] = true
		}
		if n := t.wholeEnd(i); n >= 0 {
			answers[n] = max(answers[n], int(r.output))
		}
	}
	slices.Reverse(all)
	return all, nil
}
