package policies

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmpath/warmpath/bench/trace"
)

// kind is made traffic of a rate that can be chosen, in requests a second. Its sizes are drawn
// from the seed too: another seed is another service, not the same one on another day.
type kind struct {
	name     string
	light    float64 // a rate that 8 workers of the default speed carry with ease
	length   time.Duration
	generate func(g *generator, rate, until float64) []Request
}

const kindLength = 12 * time.Minute

var kinds = []kind{
	{"tenants", 4, kindLength, tenantKind},
	{"documents", 1, kindLength, documentKind},
	{"floods", 1, kindLength, floodKind},
	{"chats", 2, kindLength, chatKind},
	{"bursts", 2, kindLength, burstKind},
	{"tools", 2, kindLength, toolKind},
	{"once", 1, kindLength, onceKind},
	{"mixture", 2, 4 * mixturePhase, mixtureKind},
}

// make makes the traffic of a seed.
func (f *kind) make(seed uint64, rate float64) []Request {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0xfa3117))}
	out := f.generate(g, rate, f.length.Seconds())
	slices.SortStableFunc(out, func(a, b Request) int { return cmp.Compare(a.At, b.At) })
	return out
}

// poisson calls with the times of arrivals until the end.
func (g *generator) poisson(rate, until float64, arrive func(at time.Duration)) {
	for at := g.after(rate); at.Seconds() < until; at = g.after(rate) {
		arrive(at)
	}
}

// uniform is a number from low to high.
func (g *generator) uniform(low, high float64) float64 { return low + g.Float64()*(high-low) }

// drawn returns a function that draws from 0 to n-1 with weight (i+1)^-exponent.
func (g *generator) drawn(n int, exponent float64) func() int {
	sums, total := make([]float64, n), 0.0
	for i := range sums {
		total += math.Pow(float64(i+1), -exponent)
		sums[i] = total
	}
	return func() int {
		i, _ := slices.BinarySearch(sums, g.Float64()*total)
		return min(i, n-1)
	}
}

// asker makes one request of some traffic.
type asker func(at time.Duration) Request

// newTenants are 100 to 500 prompts of a few thousand tokens with questions behind them.
func (g *generator) newTenants() asker {
	n, low := g.between(100, 500), g.between(1500, 4000)
	prompts, draw := g.segments(n, low, low*g.between(2, 3)), g.drawn(n, g.uniform(0, 1))
	question, answer := g.uniform(50, 400), g.uniform(80, 300)
	return func(at time.Duration) Request {
		return Request{At: at, Prompt: []Segment{prompts[draw()], g.fresh(g.exp(question))}, Output: g.exp(answer)}
	}
}

// newLibrary is 80 to 400 documents.
func (g *generator) newLibrary() asker {
	n, low := g.between(80, 400), g.between(3000, 10_000)
	docs, draw := g.segments(n, low, low*g.between(2, 5)), g.drawn(n, g.uniform(0.5, 1.2))
	answer := g.uniform(150, 400)
	return func(at time.Duration) Request {
		return Request{At: at, Prompt: []Segment{docs[draw()], g.fresh(g.between(30, 400))}, Output: g.exp(answer)}
	}
}

// newFlood is one document at a time, that many ask about for a while.
func (g *generator) newFlood() asker {
	tokens, period, share, other := g.between(8000, 40_000), g.uniform(20, 120), g.uniform(0.3, 0.8), g.uniform(800, 4000)
	document, until := g.fresh(tokens), period
	return func(at time.Duration) Request {
		if at.Seconds() > until {
			document, until = g.fresh(tokens), at.Seconds()+period
		}
		if g.Float64() < share {
			return Request{At: at, Prompt: []Segment{document, g.fresh(g.between(30, 500))}, Output: g.exp(250)}
		}
		return Request{At: at, Prompt: []Segment{g.fresh(g.exp(other))}, Output: g.exp(250)}
	}
}

// newTalk is chats behind system prompts.
func (g *generator) newTalk() asker {
	n, low := g.between(5, 60), g.between(300, 2500)
	c := &chats{generator: g, systems: g.segments(n, low, 3*low), draw: g.drawn(n, g.uniform(0.5, 1.2))}
	c.places, c.goOn = g.between(80, 500), g.uniform(0.6, 0.9)
	question, answer := g.uniform(300, 2000), g.uniform(100, 600)
	return func(at time.Duration) Request { return g.turn(c.next(), at, question, g.exp(answer)) }
}

func tenantKind(g *generator, rate, until float64) []Request {
	return g.each(g.newTenants(), rate, until)
}

func documentKind(g *generator, rate, until float64) []Request {
	return g.each(g.newLibrary(), rate, until)
}

func floodKind(g *generator, rate, until float64) []Request {
	return g.each(g.newFlood(), rate, until)
}

func chatKind(g *generator, rate, until float64) []Request { return g.each(g.newTalk(), rate, until) }

func (g *generator) each(ask asker, rate, until float64) (out []Request) {
	g.poisson(rate, until, func(at time.Duration) { out = append(out, ask(at)) })
	return out
}

// burstKind is chats of which many come at once.
func burstKind(g *generator, rate, until float64) (out []Request) {
	ask, size := g.newTalk(), g.between(15, 80)
	g.poisson(rate/float64(size), until, func(at time.Duration) {
		for range size {
			out = append(out, ask(at))
		}
	})
	return out
}

// toolKind is tool loops of agents, at the pace of a fast model.
func toolKind(g *generator, rate, until float64) (out []Request) {
	n, low := g.between(3, 20), g.between(2000, 8000)
	instructions, calls, result, pause := g.segments(n, low, 2*low), g.between(8, 40), g.uniform(300, 2500), g.uniform(2, 20)
	answer := g.uniform(60, 300)
	g.poisson(rate/float64(calls), until, func(at time.Duration) {
		c := chat{prompt: []Segment{instructions[g.IntN(n)], g.fresh(g.exp(800))}}
		for range g.between(1, 2*calls-1) {
			out = append(out, g.turn(&c, at, result, g.exp(answer)))
			at += time.Duration((3 + g.ExpFloat64()*pause) * float64(time.Second))
		}
	})
	return slices.DeleteFunc(out, func(r Request) bool { return r.At.Seconds() >= until })
}

// onceKind is prompts that have nothing in common but a short beginning.
func onceKind(g *generator, rate, until float64) []Request {
	first, tokens := g.fresh(g.between(1, 2000)), g.uniform(1000, 8000)
	return g.each(func(at time.Duration) Request {
		return Request{At: at, Prompt: []Segment{first, g.fresh(g.exp(tokens))}, Output: g.exp(200)}
	}, rate, until)
}

// mixturePhase is how long a mixture stays as it is.
const mixturePhase = 10 * time.Minute

// mixtureKind is several kinds of traffic in shares that change every ten minutes.
func mixtureKind(g *generator, rate, until float64) []Request {
	kinds := []asker{g.newTalk(), g.newTenants(), g.newLibrary(), g.newFlood(), func(at time.Duration) Request {
		return Request{At: at, Prompt: []Segment{g.fresh(g.exp(3000))}, Output: g.exp(200)}
	}}
	var draw func() int
	var order []int
	phase := -1
	return g.each(func(at time.Duration) Request {
		if now := int(at / mixturePhase); now != phase {
			phase, draw, order = now, g.drawn(len(kinds), 2), g.Perm(len(kinds))
		}
		return kinds[order[draw()]](at)
	}, rate, until)
}

// MakeSessions makes n sessions of agents of a kind that the seed draws: their lengths, sizes and
// pauses differ from the recorded ones and from those of other seeds.
func MakeSessions(seed uint64, n int) []trace.Session {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0x5e551005))}
	spread := func(median, sigma float64) float64 { return median * math.Exp(g.NormFloat64()*sigma) }
	turns, first, grows := g.uniform(10, 80), g.uniform(4000, 30_000), g.uniform(200, 2500)
	think, tail, answer := g.uniform(3, 30), g.uniform(0.8, 1.6), g.uniform(100, 500)
	agents, rewinds := g.uniform(0, 0.15), g.uniform(0, 0.05)
	kinds := g.between(1, 40)
	out := make([]trace.Session, n)
	for i := range out {
		kind := rand.New(rand.NewPCG(seed, uint64(1000+g.IntN(kinds))))
		s := &out[i]
		s.Model, s.Block = "made", trace.SessionBlock
		s.Tools, s.System = int(first*kind.Float64()/2), int(first*(1+kind.Float64())/4)
		at, last := 0.0, map[int]int{}
		for k := range 1 + int(spread(turns, 0.8)) {
			t := trace.Turn{Output: 1 + int(spread(answer, 0.9)), Of: -1, Served: time.Duration((2 + g.ExpFloat64()*8) * float64(time.Second))}
			t.Think = time.Duration(min(spread(think, tail), 20_000) * float64(time.Second))
			if k > 0 && g.Float64() < agents {
				t.Agent = 1 + g.IntN(3)
			}
			t.Input = s.Tools + s.System + 200 + int(g.ExpFloat64()*first/4)
			if of, ok := last[t.Agent]; ok {
				t.Of, t.Input, t.Keep = of, s.Turns[of].Input+1+int(g.ExpFloat64()*grows), s.Turns[of].Input/s.Block
				if g.Float64() < rewinds { // compaction
					t.Input = s.Tools + s.System + int(first/2) + int(g.ExpFloat64()*grows)
					t.Keep = min((s.Tools+s.System)/s.Block, t.Keep, t.Input/s.Block)
				}
				at = max(at, (s.Turns[of].At + s.Turns[of].Served + t.Think).Seconds())
			}
			t.At = time.Duration(at * float64(time.Second))
			s.Turns, last[t.Agent] = append(s.Turns, t), k
		}
	}
	return out
}
