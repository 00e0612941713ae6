package policy

import "math"

// KV picks the rank with the lowest predicted time to first token, plus the cost of the choice
// to other requests. All terms are in seconds, so no weight between them needs tuning:
//
//	queue     uncached prompt tokens sent to the rank and not computed yet, over its prefill rate
//	compute   this prompt's uncached tokens, over the rate
//	tier      copies of cached tokens to the GPU, as a share of their prefill, and the time until
//	          tokens come from a KV tier, where that is shorter than computing them
//	pool      the time until running requests free enough of a full KV pool or batch
//	health    the delay of these on a rank that has lost a part of its speed, by facts about GPUs
//	later     the delay of requests that wait behind this one, and the prefixes for which a pool
//	          full of running requests has no room
//	streams   the delay of answers under way: a prefill interrupts those of its rank
//	sessions  the pages that computed tokens displace, as far as sessions will need them again
//
// Overlap alone is a trap: when every request begins with the same block it sends the whole
// trace to one worker (mean TTFT 10,643 s where this rule has seconds). The queue lets a cold
// rank win, so a prompt that more requests need than one rank can serve is computed on a second
// one, and no rank starves. The later term protects prefixes that many requests need: the longer
// the queues everywhere, the more a miss costs. While ranks are free it is next to nothing, and
// hot prompts may spread.
//
// The sessions term spreads sessions over pools. A new one costs most where the pool is full of
// sessions that will come back; one that goes on costs next to nothing where its pages are. A
// session moves where its rank's wait exceeds the cost of computing it elsewhere, which near
// saturation is several times the time of computing it: every move displaces another session,
// which then moves as well (mean TTFT 20 times as long with four routers).
//
// Nothing here is in seconds or tokens of its own: small numbers of tokens are shares of a full
// prefill batch, times are shares of an answer's or of a chunk's. Engines four times as fast
// before arrivals four times as dense are sent the same requests.
//
// Routers that share nothing see each other's requests only in the ranks' next reports, and
// until then all choose the same rank. With Options.Replicas each begins with ranks of its own.
type KV struct {
	Options
}

var _ Policy = KV{}

const (
	// hostCost and diskCost are the share of its prefill that a token outside the GPU still
	// costs. Dynamo credits 0.75 and 0.25 of such blocks.
	hostCost, diskCost = 0.25, 0.75
	// sameRate is the random difference of measured rates: within it of the mean, a rank counts
	// as fast as all. Trust in small differences sends every cold prompt to the same rank (TTFT
	// +20 % on 300 documents).
	sameRate = 0.2
	// streamShare is the weight of a second's pause of a running answer against a second of this
	// prompt's: a prefill interrupts all answers of its rank. By replay of 112 cells, 1/32 takes
	// 7 % off the mean TTFT, 1/10 4 %: answers that take longer also keep their places and pages.
	streamShare = 1. / 32
	// mostLive bounds the live tokens that count, in pools: with twice as many as fit, each prompt
	// displaces pages that are needed again, and with more it does so as well.
	mostLive = 2
	// laterBase is the number of requests that one second of prefill delays while every rank
	// has a queue, plus one for each request in the shortest queue, up to laterMost; with fewer
	// queues it is proportionally less. By replay of 30 workloads, a fixed 2 instead is as good
	// in the mean. It loses 14 % where workers cannot keep up, since more depth hits matter
	// more, and 6 % on a flood of one document, since that stays on its rank for too long.
	laterBase, laterMost = 0.5, 4
	// foreignShare is the assumed work that another replica has sent to a rank of its own since
	// the rank's last report, in chunks: a short prompt, 512 tokens of 8,192. By replay, 500 to
	// 2,000 do about equally well; 4,000 keeps turns of conversations from the ranks that cache
	// them.
	foreignShare = 1. / 16
	// crowdWeight is the same for one of the last places in a batch, which later requests then
	// wait for. Where other ranks have places it is better spent there, even on computing a hot
	// prefix once more (TTFT -40 % on a flood of one document); where none has, requests would
	// wait anyway.
	//
	// A flood is still the rule's worst case. Each copy of a document of 30,000 tokens takes 2
	// s, and requests that come meanwhile join the wait, since they would wait longer on a rank
	// that has not begun. A second copy, wanted when a batch of 64 is nearly full, kept some 20
	// requests of 480 waiting 1 s each, as the first one had. With this term one request pays
	// for the copy and the others stay with the first one (TTFT -10 %). Policies without
	// predictions (staleness, least-load) compute five and more copies at once: with idle ranks
	// that is better by a factor of three where a document lives for seconds only, and no
	// single request's time to first token shows it.
	crowdWeight = 2
)

// Name implements Policy.
func (KV) Name() string { return "kv" }

// Pick implements Policy.
func (p KV) Pick(req Request, candidates []Candidate) Choice {
	var room [stackScores]float64
	f := survey(&req, candidates)
	scores := p.score(grow(room[:0], len(candidates)), &f, &req, candidates)
	if p.Temperature > 0 {
		return sample(scores, req.Seed, p.Temperature)
	}
	return lowest(scores, req.Seed, kvWhy)
}

const kvWhy = "lowest predicted time to first token"

// Costs appends the terms of each candidate's cost to dst.
func (p KV) Costs(dst []Cost, req Request, candidates []Candidate) []Cost {
	f := survey(&req, candidates)
	for i := range candidates {
		dst = append(dst, p.costOf(&f, &req, &candidates[i], i))
	}
	return dst
}

// costOf is the cost of candidate i, with the work that another replica has sent there.
func (p *KV) costOf(f *fleet, req *Request, c *Candidate, i int) Cost {
	with := *c
	with.Pending += p.foreign(f, i)
	return p.cost(f, req, &with)
}

func (p KV) scores(dst []float64, req *Request, candidates []Candidate) []float64 {
	f := survey(req, candidates)
	return p.score(dst, &f, req, candidates)
}

// score appends the sums of costs in as few steps as possible: a choice among 64 ranks takes 1
// us, and the single terms would double it. TestKVScoresAreCosts holds the two together.
func (p *KV) score(dst []float64, f *fleet, req *Request, candidates []Candidate) []float64 {
	keep := func(t Terms, weight float64) float64 {
		if p.Without&t != 0 {
			return 0
		}
		return weight
	}
	queue, tier := keep(TermQueue, 1), keep(TermTier, 1)
	if req.Stored {
		return p.scoreStored(dst, f, req, candidates)
	}
	computed, fill, pool := 1+keep(TermLater, f.later), keep(TermLater, f.chunk*f.token), p.Without&TermPool == 0
	streams, sessions := keep(TermStreams, streamShare), keep(TermSessions, 1)*p.routers(req)
	for i := range candidates {
		c := &candidates[i]
		compute, copied := p.tokens(req, c)
		others := streams * float64(c.InFlight)
		if c.Live > 0 && c.Pool > 0 {
			others += min(sessions*float64(c.Live)/float64(c.Pool), mostLive)
		}
		cost := compute*(computed+others) + copied*tier + float64(c.Pending+p.foreign(f, i))*queue
		slowed := f.slowed && c.slowed()
		if d := c.Rate - f.rate; slowed {
			cost /= f.slowRate(c)
		} else if c.Rate > 0 && (d >= sameRate*f.rate || d <= -sameRate*f.rate) {
			cost /= c.Rate
		} else {
			cost *= f.token
		}
		if pool && (c.Pool > 0 || c.MaxRunning > 0) {
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

// scoreStored is score for candidates that could fetch from KV tiers.
func (p *KV) scoreStored(dst []float64, f *fleet, req *Request, candidates []Candidate) []float64 {
	for i := range candidates {
		dst = append(dst, p.costOf(f, req, &candidates[i], i).Total())
	}
	return dst
}

// foreign is the assumed work of another replica at candidate i.
func (p *KV) foreign(f *fleet, i int) int64 {
	if p.Replicas > 1 && i%p.Replicas != p.Replica {
		return int64(f.chunk * foreignShare)
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
	if p.Without&TermPool == 0 {
		// Fetched tokens need room too.
		cost.Pool = roomWait(f, c, compute+best.tokens+float64(req.Output))
	}
	if p.Without&TermLater == 0 {
		cost.Later = f.later * cost.Compute * slower
		if c.Used > 0 && c.Pool > 0 {
			cost.Later += f.chunk * f.token * float64(c.Used) / float64(c.Pool)
		}
	}
	streams, sessions := p.others(req, c)
	cost.Streams, cost.Sessions = streams*cost.Compute*slower, sessions*cost.Compute*slower
	cost.Health = (slower-1)*(cost.Queue+cost.Compute) + (1/c.share()-1)*cost.Pool
	if p.Without&TermTier == 0 {
		cost.Health += (slower - 1) * copied * token // a network is as fast as ever
	}
	return cost
}

// others returns the cost to other requests of each second that a candidate computes: to its
// answers under way, and to sessions with pages there.
func (p *KV) others(req *Request, c *Candidate) (streams, sessions float64) {
	if p.Without&TermStreams == 0 {
		streams = streamShare * float64(c.InFlight)
	}
	if p.Without&TermSessions == 0 && c.Live > 0 && c.Pool > 0 {
		sessions = min(p.routers(req)*float64(c.Live)/float64(c.Pool), mostLive)
	}
	return streams, sessions
}

// routers is the number of routers: each sees its own sessions only, and takes the others' to be
// alike.
func (p *KV) routers(req *Request) float64 { return float64(max(p.Replicas, req.Routers, 1)) }

// pace returns the seconds of a prefill token at a rank's full speed, and the factor by which
// it is slower now.
func (f *fleet) pace(c *Candidate) (token, slower float64) {
	switch {
	case c.slowed():
		had := f.fullRate(c)
		return 1 / had, had / f.slowRate(c)
	case c.Rate > 0 && math.Abs(c.Rate-f.rate) >= sameRate*f.rate:
		return 1 / c.Rate, 1
	}
	return f.token, 1
}

// computed returns the result of tokens, and the part that is better fetched than computed.
func (p *KV) computed(f *fleet, req *Request, c *Candidate, token float64) (compute, copied float64, best fetch) {
	if !req.Stored || !c.stored() {
		compute, copied = p.tokens(req, c)
		return compute, copied, best
	}
	if p.Without&TermTier != 0 { // then fetching is free, as copies are
		free := *c
		free.TierTime, free.RemoteTime = 0, 0
		c = &free
	}
	later := f.later
	if p.Without&TermLater != 0 {
		later = 0
	}
	streams, sessions := p.others(req, c)
	later += streams + sessions
	return p.withStored(req, c, token, later)
}

// roomWait is the time until running requests have freed the pages and the place of a request.
func roomWait(f *fleet, c *Candidate, tokens float64) (wait float64) {
	if over := tokens + float64(c.Used-c.Pool); c.Pool > 0 && c.Used > 0 && over > 0 {
		// Requests that wait there go first, and each waits for an answer to end. Where all ranks
		// have such requests, those would wait elsewhere as well.
		ahead := f.idle * float64(c.Waiting) / float64(max(c.InFlight-c.Waiting, 1))
		wait = f.answer * (over/float64(c.Used) + ahead)
	}
	if c.crowded() {
		most := float64(c.MaxRunning)
		over := float64(c.InFlight+1) - most
		wait += f.answer / most * (max(over, 0) + crowdWeight*f.crowd*(over+math.Sqrt(most)))
	}
	return wait
}

// crowded reports whether fewer places of the batch are left, with one more request, than the
// square root of all: with fewer, random arrivals find none (square-root staffing).
func (c *Candidate) crowded() bool {
	free := c.MaxRunning - c.InFlight - 1
	return c.MaxRunning > 0 && (free < 0 || free*free < c.MaxRunning)
}

// tokens returns the tokens of the prompt that a candidate would compute, and the cost of
// copying the rest to its GPU in tokens of prefill. A predicted prompt is on the GPU when it is
// needed, and is preferred where copies cost more.
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
