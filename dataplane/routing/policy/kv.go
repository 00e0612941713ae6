package policy

import "math"

// KV picks the rank with the lowest predicted time to first token, plus what the choice costs those who come after. All
// terms are in seconds, so that no weight between them has to be tuned:
//
//	queue     uncached prompt tokens sent to the rank and not computed yet, over its prefill rate
//	compute   this prompt's uncached tokens, over the rate
//	tier      cached tokens that must be copied to the GPU first, as a share of their prefill, and the time until tokens come from the KV
//	          tier of the node or of a peer, where that is shorter than computing them
//	batch     the decode step that a prefill batch waits for, longer with the batch
//	pool      where the KV pool or the batch is full of running requests, the time until they give enough back
//	health    what these take longer on a rank that has lost a part of its speed, by the facts about its GPUs
//	later     compute again, for the requests that would have to wait behind it; and the prefixes for which a fuller pool has no room
//
// Overlap alone is a trap: when every request begins with the same block it sends the whole trace to one worker (mean
// TTFT 10,643 s where this rule has seconds). The queue lets a cold rank win; a prompt that more requests need than one
// rank can carry is so computed on a second one, and no rank starves. The last term protects prefixes that many need: the more
// wait everywhere, the dearer it makes a miss, which also evicts somebody's pages. While ranks are free it is next to nothing, and
// hot prompts may spread.
//
// Router replicas see each other's requests late, in the ranks' next reports where they tell each other nothing, and until then all
// choose the same rank. With Options.Replicas each begins with ranks of its own.
type KV struct {
	Options
}

var _ Policy = KV{}

const (
	// batchTokens is what one running request adds to a prefill, in tokens: it takes part in the decode steps between prefill
	// batches. By replay anything from 4 to 256 does about equally well; 64 spreads tool loops best, whose many short prompts find all
	// of their instructions wherever they go.
	batchTokens = 64
	// hostCost and diskCost are the share of its prefill that a token outside the GPU still costs. Dynamo credits 0.75 and
	// 0.25 of such blocks.
	hostCost, diskCost = 0.25, 0.75
	// tieTokens is the difference in cost below which two ranks are equal: less than the jitter of one scheduler step, and
	// enough to spread requests with nothing cached.
	tieTokens = 8
	// sameRate is how much rates differ by chance: within it of the mean, a rank counts as fast as all. Believing small differences
	// sends every cold prompt to the same rank (on 300 documents TTFT +20 %).
	sameRate = 0.2
	// poolSeconds is how long the running requests of a full pool take to give all of it back: 350 tokens of answer at 30 ms,
	// the means of the conversation trace. By replay 10 to 30 s do equally well, 3 less so.
	poolSeconds = 10
	// laterBase and, for each request that waits at the emptiest rank, one more up to laterMost, are how many requests a second of
	// prefill delays while every rank has somebody waiting; where only some have, others can take what comes, and it is so much
	// less. By replay of 30 workloads: a fixed 2 in their place is as good in the mean, but loses 14 % where workers cannot keep up,
	// for more depth hits matter more, and 6 % on a flood of one document, for it stays where it is for too long.
	laterBase, laterMost = 0.5, 4
	// fillSeconds is what those who come after lose on a rank whose pool is full of running requests: it has no room for their
	// prefixes. By replay 0.5 to 1 takes 8 to 13 % off the mean TTFT of tool loops in small pools; 0.2 is too little to matter.
	fillSeconds = 0.5
	// foreignTokens are what a rank that another replica begins with is believed to have been sent by it since the rank's last report: a
	// short prompt. By replay 500 to 2,000 do about equally well; 4,000 keeps turns of conversations from where they are cached.
	foreignTokens = 500
	// crowdWeight is the same for one of the last places in a batch: who takes it keeps those waiting who come after. Where other ranks
	// have places it is better spent there, even on computing a hot prefix once more (on a flood of one document TTFT −40 %); where
	// none has, they would wait anyway.
	//
	// A flood is still where the rule is worst: of a document of 30,000 tokens each copy is 2 s in the making, and whoever comes
	// meanwhile joins the wait, since it would wait longer where nobody has begun. So a second copy, wanted when a batch of 64 is nearly full,
	// kept some 20 requests of 480 waiting 1 s each, as the first one had: now one request pays for it and the others stay with the first
	// until it is there (TTFT −10 %). Policies that know nothing of prompts in the making (staleness, least-load) compute five and more copies
	// at once, the wait for which is paid only once: with idle ranks that is the better bet, by a factor of three where a document lives for
	// seconds only, and no single request's time to first token shows it.
	crowdWeight = 2
)

// Name implements Policy.
func (KV) Name() string { return "kv" }

// Pick implements Policy.
func (p KV) Pick(req Request, candidates []Candidate) Choice {
	if len(candidates) > fewScores {
		return p.pickMany(&req, candidates)
	}
	var room [fewScores]float64
	return p.pick(room[:0], &req, candidates)
}

func (p KV) pickMany(req *Request, candidates []Candidate) Choice {
	var room [mostScores]float64
	return p.pick(room[:0], req, candidates)
}

func (p *KV) pick(room []float64, req *Request, candidates []Candidate) Choice {
	f := survey(candidates)
	scores := p.score(room, &f, req, candidates)
	switch {
	case p.Temperature > 0:
		return sample(scores, req.Seed, p.Temperature)
	case p.Without&TermTies != 0:
		return lowest(scores, req.Seed, 0, kvWhy)
	}
	return lowest(scores, req.Seed, tieTokens*f.token, kvWhy)
}

const kvWhy = "lowest predicted time to first token"

// Costs appends the terms of each candidate's cost to dst.
func (p KV) Costs(dst []Cost, req Request, candidates []Candidate) []Cost {
	f := survey(candidates)
	for i := range candidates {
		dst = append(dst, p.costOf(&f, &req, &candidates[i], i))
	}
	return dst
}

// costOf is the cost of candidate i, what another replica has sent there counted.
func (p *KV) costOf(f *fleet, req *Request, c *Candidate, i int) Cost {
	with := *c
	with.Pending += p.foreign(i)
	return p.cost(f, req, &with)
}

func (p KV) scores(dst []float64, req *Request, candidates []Candidate) []float64 {
	f := survey(candidates)
	return p.score(dst, &f, req, candidates)
}

// score appends the sums of costs, in as few steps as they can be had: a choice among 64 ranks takes 1 µs, of which making the
// terms one by one would be another. TestKVScoresAreCosts holds the two together.
func (p *KV) score(dst []float64, f *fleet, req *Request, candidates []Candidate) []float64 {
	keep := func(t Terms, weight float64) float64 {
		if p.Without&t != 0 {
			return 0
		}
		return weight
	}
	queue, batch, tier := keep(TermQueue, 1), keep(TermBatch, batchTokens), keep(TermTier, 1)
	if req.Stored {
		return p.scoreStored(dst, f, req, candidates)
	}
	computed, fill, pool := 1+keep(TermLater, f.later), keep(TermLater, fillSeconds), p.Without&TermPool == 0
	for i := range candidates {
		c := &candidates[i]
		compute, copied := p.tokens(req, c)
		cost := compute*computed + copied*tier + float64(c.Pending+p.foreign(i))*queue + float64(c.InFlight)*batch
		slowed := f.slowed && c.slowed()
		if d := c.Rate - f.rate; slowed {
			cost /= f.slowRate(c)
		} else if c.Rate > 0 && (d >= sameRate*f.rate || d <= -sameRate*f.rate) {
			cost /= c.Rate
		} else {
			cost *= f.token
		}
		if pool && (c.Pool > 0 || c.Most > 0) {
			wait := roomWait(f, c, compute+float64(req.Output))
			if slowed {
				wait /= c.Weight
			}
			cost += wait
		}
		if c.Used > 0 && c.Pool > 0 {
			cost += fill * float64(c.Used) / float64(c.Pool)
		}
		dst = append(dst, cost)
	}
	return dst
}

// scoreStored is score where candidates could fetch: few deployments have that, and the others need not look for it.
func (p *KV) scoreStored(dst []float64, f *fleet, req *Request, candidates []Candidate) []float64 {
	for i := range candidates {
		dst = append(dst, p.costOf(f, req, &candidates[i], i).Total())
	}
	return dst
}

// foreign is what another replica is believed to have sent to candidate i.
func (p *KV) foreign(i int) int64 {
	if p.Replicas > 1 && i%p.Replicas != p.Replica {
		return foreignTokens
	}
	return 0
}

func (p *KV) cost(f *fleet, req *Request, c *Candidate) (cost Cost) {
	token, slower := f.pace(c)
	compute, copied, best := p.computed(f, req, c, token*slower)
	cost.Compute = compute * token
	if p.Without&TermTier == 0 {
		cost.Tier = copied*token + best.seconds
	}
	if p.Without&TermQueue == 0 {
		cost.Queue = float64(c.Pending) * token
	}
	if p.Without&TermBatch == 0 {
		cost.Batch = batchTokens * float64(c.InFlight) * token
	}
	if p.Without&TermPool == 0 {
		cost.Pool = roomWait(f, c, compute+best.tokens+float64(req.Output)) // what is fetched needs room as what is computed does
	}
	if p.Without&TermLater == 0 {
		cost.Later = f.later * cost.Compute * slower
		if c.Used > 0 && c.Pool > 0 {
			cost.Later += fillSeconds * float64(c.Used) / float64(c.Pool)
		}
	}
	cost.Health = (slower-1)*(cost.Queue+cost.Compute+cost.Batch) + (1/c.share()-1)*cost.Pool
	if p.Without&TermTier == 0 {
		cost.Health += (slower - 1) * copied * token // a network is as fast as ever
	}
	return cost
}

// pace is what one prefill token takes in seconds with all of a rank's speed, and how many times longer it takes now.
func (f *fleet) pace(c *Candidate) (token, slower float64) {
	switch {
	case c.slowed():
		had := f.had(c)
		return 1 / had, had / f.slowRate(c)
	case c.Rate > 0 && math.Abs(c.Rate-f.rate) >= sameRate*f.rate:
		return 1 / c.Rate, 1
	}
	return f.token, 1
}

// computed is tokens, and what is better fetched than computed.
func (p *KV) computed(f *fleet, req *Request, c *Candidate, token float64) (compute, copied float64, best shelf) {
	if !req.Stored || !c.stored() {
		compute, copied = p.tokens(req, c)
		return compute, copied, best
	}
	if p.Without&TermTier != 0 { // then fetching looks free, as copies do
		free := *c
		free.TierTime, free.RemoteTime = 0, 0
		c = &free
	}
	later := f.later
	if p.Without&TermLater != 0 {
		later = 0
	}
	return p.withStored(req, c, token, later)
}

// roomWait is the time until running requests have given back the pages and the place that a request needs.
func roomWait(f *fleet, c *Candidate, tokens float64) (wait float64) {
	if over := tokens + float64(c.Used-c.Pool); c.Pool > 0 && c.Used > 0 && over > 0 {
		wait = poolSeconds * over / float64(c.Used)
	}
	if c.crowded() {
		most := float64(c.Most)
		over := float64(c.InFlight+1) - most
		wait += poolSeconds / most * (max(over, 0) + crowdWeight*f.crowd*(over+math.Sqrt(most)))
	}
	return wait
}

// crowded reports whether, with one more, fewer than the square root of all places in the batch are left: below that, those who come
// by chance find none (square-root staffing).
func (c *Candidate) crowded() bool {
	free := c.Most - c.InFlight - 1
	return c.Most > 0 && (free < 0 || free*free < c.Most)
}

// tokens returns what a candidate would compute of the prompt, and what copying the rest to its GPU costs in tokens of
// prefill. A prompt in the making is on the GPU when it is needed, and is preferred where the copies cost more.
func (p *KV) tokens(req *Request, c *Candidate) (compute, copied float64) {
	all := float64(req.Tokens)
	compute = max(all-p.OverlapWeight*float64(c.Cached), 0)
	copied = hostCost*float64(c.Host-c.Disk) + diskCost*float64(c.Disk)
	if c.Predicted > c.Cached {
		if made := max(all-p.OverlapWeight*float64(c.Predicted), 0); made <= compute+copied {
			return made, 0
		}
	}
	return compute, copied
}
