//go:build !race

package routing_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

// path is the way of a request from its bytes to the worker's, and after the answer.
type path struct {
	t      *testing.T
	router *routing.Router
	req    openai.Request
	usage  openai.UsageScanner
	s      *routing.Scratch
	reply  []uint32
	answer []byte
}

// request takes a body from its bytes to the end of its answer.
func (p *path) request(api openai.API, body []byte) {
	if err := p.req.Parse(api, body); err != nil {
		p.t.Fatal(err)
	}
	q := routing.Prompt{Model: model, Estimate: len(body) / 4, DP: -1}
	if p.req.HasIDs {
		q.Tokens, q.Exact = p.req.InputIDs, true
	} else {
		q.Text = p.req.Messages
	}
	d, err := p.router.Pick(p.s, &q, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	lease := d.Rank.Load.Begin(d.Uncached())
	flight := p.router.Dispatch(p.s, &q, &d)
	p.router.Sent(p.s, &d)
	lease.FirstByte()
	flight.Prefilled()
	p.usage.Reset(api, false)
	_, _ = p.usage.Write(p.answer)
	u := p.usage.Usage()
	p.router.Finish(p.s, flight, p.reply, time.Now().Add(time.Hour))
	p.router.Answered(p.s, &q, &d, u.PromptTokens, u.CachedTokens)
	lease.End()
	p.router.Failed(p.s, &d)
	p.req.Reset()
	p.s.Trim()
}

// TestRequestDoesNotAllocate: from a body's bytes over its ids or text, hashes, overlap and
// choice to the lessons of the answer; with events and without, of prompts that come again and
// of new ones. Only the predictions of new ones take memory.
func TestRequestDoesNotAllocate(t *testing.T) {
	text := func(unique int) []byte {
		return []byte(`{"model":"tiny","messages":[{"role":"user","content":"` + strconv.Itoa(unique) + strings.Repeat(`some words,\n`, 700) + `"}]}`)
	}
	ids := func(unique int) []byte {
		return []byte(`{"input_ids":[` + strconv.Itoa(unique) + strings.Repeat(`,1234,77,128000`, 700) + `]}`)
	}
	tests := []struct {
		name   string
		api    openai.API
		body   func(unique int) []byte
		events bool
		bodies int
		most   float64
	}{
		{"text, known", openai.APIChat, text, false, 2, 0},
		{"text, new", openai.APIChat, text, false, 400, 0},
		{"ids, known", openai.APIGenerate, ids, false, 2, 0},
		{"ids, new", openai.APIGenerate, ids, false, 400, 0},
		{"ids, known, events", openai.APIGenerate, ids, true, 2, 0},
		// A block without a holder is predicted as a run of its own, which is one object, and
		// the first in its part of the table of runs takes another. Each of these 400 finds its
		// run still there where all come within the 100 ms that a prediction outlives its
		// answer.
		{"ids, new, events", openai.APIGenerate, ids, true, 400, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPath(t, tt.events)
			var bodies [][]byte
			for i := range tt.bodies {
				bodies = append(bodies, tt.body(1000+i))
			}
			n := 0
			next := func() {
				n++
				p.request(tt.api, bodies[n%len(bodies)])
			}
			for range 5000 { // from here on each answer takes an older one's place, and each new prompt another one's
				next()
			}
			// How many ended answers are predictions at a time hangs on how fast requests come,
			// and room for more of them is made once.
			for range 50 {
				if testing.AllocsPerRun(200, next) <= tt.most {
					return
				}
			}
			require.Fail(t, "each request allocates more than %v objects", tt.most)
		})
	}
}

// newPath has three workers, of which the first tells its blocks where there are events; the
// approximate index has room for some 60 prompts.
func newPath(t *testing.T, events bool) *path {
	t.Helper()
	f := newFleet(t, tiny(), tiny(), tiny())
	f.router.Approx = routing.NewApproxIndex(64 << 10)
	for _, r := range f.ranks {
		f.router.Approx.Up(r.Worker, r.Worker.Info())
	}
	view := &ingest.View{}
	if events {
		f.ranks[0].SetExact(true)
		f.holds(0, radix.DomainKey{}, tokens(1, 1000), 100, radix.TierGPU)
		view.Shapes = f.shapes
	}
	r := routing.New(f.registry, f.index, func() *ingest.View { return view }, policy.KV{Options: policy.Defaults}, func() uint64 { return 7 })
	r.Approx = f.router.Approx
	known(f, r)
	return &path{
		t: t, router: r, s: &f.scratch, reply: tokens(2, 50),
		answer: []byte(`{"usage":{"prompt_tokens":2101,"completion_tokens":50,"prompt_tokens_details":{"cached_tokens":64}}}`),
	}
}
