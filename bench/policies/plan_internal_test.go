package policies

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// decode makes a few requests of few tokens from bytes, so that they share much.
func decode(data []byte) (trace []Request, page int) {
	next := func() int {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return int(b)
	}
	page = 1 + next()%5
	for len(data) > 0 && len(trace) < 12 {
		r := Request{At: time.Duration(next()%4) * time.Second, Output: 1 + next()%7, Answer: uint64(next() % 6)}
		for range 1 + next()%4 {
			r.Prompt = append(r.Prompt, Segment{ID: uint64(1 + next()%5), Tokens: 1 + next()%9})
		}
		trace = append(trace, r)
	}
	return trace, page
}

// FuzzPlanAgainstNaive: the common part of two prompts in the tree is the common part of their
// tokens, written out.
func FuzzPlanAgainstNaive(f *testing.F) {
	f.Add([]byte{3, 0, 1, 2, 3, 1, 4, 1, 5, 0, 0, 2, 0, 3, 1, 4, 1, 5, 2, 2, 2})
	f.Add([]byte{0, 1, 5, 1, 0, 1, 8, 2, 5, 1, 1, 1, 8, 1, 3, 1, 0, 1, 2, 2, 8, 1, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		trace, page := decode(data)
		if len(trace) == 0 {
			return
		}
		p := newPlan(trace, page, 1, false)
		tokens := spell(p, trace)
		for i := range p.jobs {
			a := &p.jobs[i]
			require.Equal(t, a.pages, int32((a.input+a.output-1)/page))
			length := int32(0)
			for k, n := range a.path {
				require.Equal(t, length, p.nodes[n].start)
				if k > 0 {
					require.Equal(t, a.path[k-1], p.nodes[n].parent)
				}
				length += p.nodes[n].pages
			}
			require.Equal(t, a.pages, length, "the path of request %d is its pages", i)
			for k := range p.jobs {
				b := &p.jobs[k]
				same := 0
				for same < min(len(tokens[i]), len(tokens[k])) && tokens[i][same] == tokens[k][same] {
					same++
				}
				want := min(int32(same/page), a.pages, int32(b.input/page))
				require.Equal(t, want, p.shared(&task{job: a}, &task{job: b}, a.pages), "requests %d and %d", i, k)
			}
		}
	})
}

func TestSpread(t *testing.T) {
	trace := []Request{{At: 0}, {At: 0}, {At: 0}, {At: 3 * time.Second}, {At: 3 * time.Second}}
	for i := range trace {
		trace[i].Prompt, trace[i].Output = []Segment{{ID: 1, Tokens: 5}}, 1
	}
	p := newPlan(trace, 1, 2, true) // twice the rate: steps of 1.5 s
	want := []time.Duration{0, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond, 1500 * time.Millisecond}
	for i, j := range p.jobs {
		require.Equal(t, want[i], j.at.duration())
	}
}

// Beginnings double, and are equal where tokens are.
func TestBeginnings(t *testing.T) {
	req := func(ids ...uint64) (r Request) {
		for _, id := range ids {
			r.Prompt = append(r.Prompt, Segment{ID: id, Tokens: 256})
		}
		r.Output = 1
		return r
	}
	p := newPlan([]Request{req(1, 2, 3, 7), req(1, 2, 4, 7), req(1, 5), req(1, 6)}, 4, 1, false)
	a, b, c := p.jobs[0].prefixes, p.jobs[1].prefixes, p.jobs[2].prefixes
	require.Len(t, a, 3, "256, 512 and 1,024 tokens")
	require.Len(t, c, 2)
	require.Equal(t, a[:2], b[:2])
	require.NotEqual(t, a[2], b[2])
	require.Equal(t, a[0], c[0])
	require.NotEqual(t, a[1], c[1])
}
