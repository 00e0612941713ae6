package policies

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// workload is a made trace, the same for the same seed on every machine. Sizes are such that 8
// workers of the default speed are 50 to 80 % busy where no prompt is cached twice.
type workload struct {
	name, what string
	generate   func(g *generator, n int) []Request
}

var workloads = []workload{
	{"zipf", "50 shared prompts of 1,000 to 4,000 tokens, drawn with weight 1/(i+1), and a question of 50 to 300", zipfFamily},
	{"conversations", "chats behind 20 system prompts that grow by turns, 70 % of requests continue one", conversations},
	{"system", "one system prompt of 2,000 tokens, then 1,000 to 6,000 tokens that nobody else has", systemFamily},
	{"agents", "tool loops: 5 agents with 8,000 tokens of instructions, 4 to 30 calls a task, each appends its result", agents},
	{"bursts", "conversations of which 40 arrive at once, then none for a while", bursts},
	{"trap", "prompts of 6,000 tokens whose first block of 512 all share and nothing else: highest overlap alone sends all to one worker", trap},
	{"flood", "one document of 30,000 tokens that half of all requests ask about for a minute, then the next", flood},
	{"scan", "adversarial: shared prompts that are asked for in turn, so that LRU has just dropped each, among prompts asked once", scan},
	{"documents", "300 documents of 4,000 to 20,000 tokens by Zipf, several questions each: more than the caches hold", documents},
	{"tenants", "320 prompts of 5,000 tokens by Zipf and a question of 20 to 200, for pools that hold a part of them", tenants},
}

// Workloads lists the made workloads with a description each.
func Workloads() (names, what []string) {
	for _, f := range workloads {
		names, what = append(names, f.name), append(what, f.what)
	}
	return names, what
}

// Synthetic makes n requests of a family.
func Synthetic(name string, seed uint64, n int) ([]Request, error) {
	i := slices.IndexFunc(workloads, func(f workload) bool { return f.name == name })
	if i < 0 {
		names, _ := Workloads()
		return nil, fmt.Errorf("cannot make workload %q: %w: want one of %s", name, ErrConfig, strings.Join(names, ", "))
	}
	if n < 1 {
		return nil, fmt.Errorf("cannot make %d requests: %w", n, ErrConfig)
	}
	return workloads[i].generate(&generator{Rand: rand.New(rand.NewPCG(seed, uint64(i)))}, n), nil
}

// generator draws the random numbers of workloads.
type generator struct {
	*rand.Rand
	ids uint64
	now float64 // seconds
}

// id is a new name for tokens.
func (g *generator) id() uint64 {
	g.ids++
	return g.ids
}

// after moves time on to the next arrival of a Poisson process of so many a second.
func (g *generator) after(perSecond float64) time.Duration {
	g.now += g.ExpFloat64() / perSecond
	return time.Duration(g.now * float64(time.Second))
}

// between is a whole number from low to high.
func (g *generator) between(low, high int) int { return low + g.IntN(high-low+1) }

// exp is a whole number from 1 with about this mean.
func (g *generator) exp(mean float64) int { return 1 + int(g.ExpFloat64()*mean) }

// fresh is a segment of new tokens.
func (g *generator) fresh(tokens int) Segment { return Segment{g.id(), tokens} }

// segments makes n segments of low to high tokens.
func (g *generator) segments(n, low, high int) []Segment {
	s := make([]Segment, n)
	for i := range s {
		s[i] = g.fresh(g.between(low, high))
	}
	return s
}

// zipfFamily has the sizes of the published benchmarks of shared prompts: answers of 100 to 500
// tokens.
func zipfFamily(g *generator, n int) (out []Request) {
	prompts, draw := g.segments(50, 1000, 4000), g.drawn(50, 1)
	for range n {
		out = append(out, Request{
			At:     g.after(12),
			Prompt: []Segment{prompts[draw()], g.fresh(g.between(50, 300))}, Output: g.between(100, 500),
		})
	}
	return out
}

func systemFamily(g *generator, n int) (out []Request) {
	system := g.fresh(2000)
	for range n {
		out = append(out, Request{At: g.after(16), Prompt: []Segment{system, g.fresh(g.between(1000, 6000))}, Output: g.exp(200)})
	}
	return out
}

func trap(g *generator, n int) (out []Request) {
	first := g.fresh(512)
	for range n {
		out = append(out, Request{At: g.after(12), Prompt: []Segment{first, g.fresh(5488)}, Output: g.exp(200)})
	}
	return out
}

// chat is a conversation that may go on.
type chat struct {
	prompt  []Segment
	session uint64
}

// turn asks a chat's next question: the prompt is all that was said before and the question.
func (g *generator) turn(c *chat, at time.Duration, question float64, answer int) Request {
	c.prompt = append(slices.Clip(c.prompt), g.fresh(g.exp(question)))
	r := Request{At: at, Prompt: c.prompt, Output: answer, Answer: g.id()}
	if c.session == 0 {
		c.session = r.Answer
	}
	r.Session = c.session
	c.prompt = append(slices.Clip(c.prompt), Segment{r.Answer, answer})
	return r
}

const longestChat = 64 << 10

func conversations(g *generator, n int) (out []Request) {
	c := g.newChats()
	for range n {
		out = append(out, g.turn(c.next(), g.after(5), 1500, g.exp(350)))
	}
	return out
}

// chats are open conversations behind shared system prompts.
type chats struct {
	*generator
	systems []Segment
	draw    func() int
	places  int     // of conversations that may continue at any moment
	goOn    float64 // share of the requests that continue one
	open    []chat
}

func (g *generator) newChats() *chats {
	return &chats{generator: g, systems: g.segments(20, 1000, 4000), draw: g.drawn(20, 1), places: 300, goOn: 0.7}
}

// next continues a conversation or opens one, in the place of another when enough are open.
func (c *chats) next() *chat {
	if len(c.open) > 0 && c.Float64() < c.goOn {
		at := &c.open[c.IntN(len(c.open))]
		if (&Request{Prompt: at.prompt}).Input() < longestChat {
			return at
		}
	}
	begun := chat{prompt: []Segment{c.systems[c.draw()]}}
	if len(c.open) < c.places {
		c.open = append(c.open, begun)
		return &c.open[len(c.open)-1]
	}
	at := &c.open[c.IntN(len(c.open))]
	*at = begun
	return at
}

func bursts(g *generator, n int) (out []Request) {
	c := g.newChats()
	at := time.Duration(0)
	for i := range n {
		if i%40 == 0 {
			at = g.after(0.1)
		}
		out = append(out, g.turn(c.next(), at, 1500, g.exp(350)))
	}
	return out
}

// agents interleaves tool loops: a task's calls follow each other by the time that the model
// and a tool take.
func agents(g *generator, n int) (out []Request) {
	instructions := g.segments(5, 7000, 9000)
	for len(out) < n {
		begin := g.after(0.7)
		c := chat{prompt: []Segment{instructions[g.IntN(5)], g.fresh(g.exp(800))}}
		at := begin
		for range g.between(4, 30) {
			out = append(out, g.turn(&c, at, 900, g.exp(120)))
			at += time.Duration((4 + g.ExpFloat64()*6) * float64(time.Second))
		}
	}
	slices.SortStableFunc(out, func(a, b Request) int { return cmp.Compare(a.At, b.At) })
	return out[:n]
}

func flood(g *generator, n int) (out []Request) {
	document, until := g.fresh(30_000), 60.0
	for range n {
		at := g.after(8)
		if at.Seconds() > until {
			document, until = g.fresh(30_000), until+60
		}
		prompt := []Segment{g.fresh(g.exp(3000))}
		if g.Float64() < 0.5 {
			prompt = []Segment{document, g.fresh(g.between(50, 500))}
		}
		out = append(out, Request{At: at, Prompt: prompt, Output: g.exp(250)})
	}
	return out
}

func scan(g *generator, n int) (out []Request) {
	prompts := g.segments(400, 3000, 5000)
	for i := range n {
		prompt := []Segment{prompts[(i/2)%len(prompts)], g.fresh(100)}
		if i%2 == 1 {
			prompt = []Segment{g.fresh(g.exp(6000))}
		}
		out = append(out, Request{At: g.after(14), Prompt: prompt, Output: g.exp(200)})
	}
	return out
}

func documents(g *generator, n int) (out []Request) {
	docs, draw := g.segments(300, 4000, 20_000), g.drawn(300, 1)
	for range n {
		out = append(out, Request{At: g.after(9), Prompt: []Segment{docs[draw()], g.fresh(g.between(50, 500))}, Output: g.exp(300)})
	}
	return out
}

func tenants(g *generator, n int) (out []Request) {
	prompts, draw := g.segments(320, 5000, 5000), g.drawn(320, 1)
	for range n {
		out = append(out, Request{At: g.after(18), Prompt: []Segment{prompts[draw()], g.fresh(g.between(20, 200))}, Output: g.exp(150)})
	}
	return out
}

// bound is the share of prompt tokens that one cache without an end would find: no router can
// do better.
func bound(p *plan) float64 {
	e := endless{plan: p, cache: newCache(p, nil)}
	for i := range p.jobs {
		e.enter(&p.jobs[i], true)
	}
	return ratio(e.hit, e.all)
}

// endless is one cache without an end, entered at once.
type endless struct {
	plan     *plan
	cache    *cache
	hit, all float64
}

// enter looks a prompt up, counts the tokens found, and stores it with its answer.
func (e *endless) enter(j *job, counts bool) {
	if counts {
		e.all += float64(j.input)
		e.hit += float64(e.cache.match(j.path, int32((j.input-1)/e.plan.page))) * float64(e.plan.page)
	}
	e.cache.insert(j.path, j.pages)
}
