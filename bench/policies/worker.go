package policies

// worker is one simulated engine: a scheduler with its own queue, KV pool and prefix cache.
// Prefill goes before decode; a prefill batch has at most costs.chunk new tokens, and a longer
// prompt is cut at a page and goes on in the next batch. A request enters when the pool can
// give it the pages of its whole prompt and answer.
type worker struct {
	id    int
	costs costs
	memory

	waiting []*task
	running []*task
	chunked *task // has computed some chunks of its prompt and not all
	batch   []piece

	// The present work: a prefill batch, or steps decode steps that began at began with context
	// tokens.
	began, until clock
	steps        int
	context      int64
	pace         pace

	untold []change         // pages that came and went since the last events
	tell   func(c []change) // publishes them; nil: nobody listens
	counts workerCounts
	idle   bool
	role   role
	gaps   gaps // between tokens
}

// memory is the KV pool of a worker, and the tiers behind it.
type memory struct {
	plan     *plan
	pool     int32 // pages
	cache    *cache
	host     *tier     // nil: none
	nodeTier *nodeTier // of its node; nil: none
	taken    int32     // pages given to requests and not in the cache
}

func (m *memory) pagesOf(tokens int) int32 { return int32((tokens + m.plan.page - 1) / m.plan.page) }

// usable is how many pages of a prompt a cache may serve: one token is always computed.
func (m *memory) usable(j *job) int32 { return int32((j.input - 1) / m.plan.page) }

// free is the number of free pages.
func (m *memory) free() int32 { return m.pool - m.cache.pages - m.taken }

// role is the part of a request that a worker computes.
type role uint8

const (
	mixed role = iota
	prefills
	decodes
)

// workerCounts add up over the run.
type workerCounts struct {
	requests          int
	prefilled         int64 // prompt tokens computed
	generated         int64 // tokens of answers
	busy, prefillBusy clock
	evicted           int64 // pages
}

// task is a request at a worker.
type task struct {
	*job
	id       int32 // index of the job
	replica  int32 // the sender
	worker   int32
	arrived  clock // at the router
	sent     clock // to the worker
	uncached int   // tokens that the router expected to be computed
	fetched  int   // tokens that it expected from KV tiers
	held     int   // tokens that some worker held
	ready    clock // when fetched pages have come to the node's tier
	made     int   // tokens generated
	first    clock // of the first token
	last     clock // of the latest one that is counted in gaps
	ended    clock
	landed   clock // of its pages at a decoding worker
	prefill
}

// prefill is the state of a prompt at its worker.
type prefill struct {
	computed int   // prompt tokens that need no more work
	cached   int   // of them, found on the GPU
	hosted   int   // found in the host tier
	load     int   // of hosted, tokens still to be copied
	inTree   int32 // pages of the path in the cache
	owned    int32 // pages given that are not in the cache
	locks    int   // nodes of the path locked
}

// piece is a task's share of one prefill batch.
type piece struct {
	*task
	tokens int
}

func newWorker(id int, p *plan, c costs, pool int32, host int32, tell func([]change)) *worker {
	w := &worker{id: id, costs: c, memory: memory{plan: p, pool: pool}, tell: tell, idle: true, until: never}
	var told, hosted func(n, held int32)
	if tell != nil {
		told = func(n, held int32) { w.untold = append(w.untold, change{worker: int32(id), node: n, held: held}) }
		hosted = func(n, held int32) {
			w.untold = append(w.untold, change{worker: int32(id), node: n, held: held, host: true})
		}
	}
	w.cache = newCache(p, told)
	w.cache.piece = int32(c.chunk / p.page)
	if host > 0 {
		w.host = &tier{cache: newCache(p, hosted), pool: host}
		w.host.cache.piece = w.cache.piece
	}
	return w
}

// fits reports whether the worker could ever serve j.
func (w *worker) fits(j *job) bool { return w.pagesOf(w.length(j)) <= w.pool }

// length is how many tokens of j the pool must hold.
func (w *worker) length(j *job) int {
	if w.role == prefills {
		return j.input
	}
	return j.input + j.output
}

// submit queues t. A worker that decodes looks up at the end of the step under way.
func (w *worker) submit(t *task, now clock) {
	if t.ready = now; w.nodeTier != nil {
		t.ready = w.nodeTier.order(w, t, now)
	}
	w.waiting = append(w.waiting, t)
	switch {
	case w.idle:
		w.idle = false
		w.until = now
	case w.steps > 0:
		w.steps = w.costs.stepsBy(len(w.running), w.context, now-w.began, w.steps)
		w.until = w.began + w.costs.decode(len(w.running), w.context, w.steps)
	}
}

// advance ends the work under way at now and begins the next batch. done hears of first tokens
// and of ends.
func (w *worker) advance(now clock, done func(t *task, now clock)) {
	switch {
	case w.steps > 0:
		w.decoded(now, done)
	case len(w.batch) > 0:
		w.prefilled(now, done)
	}
	w.publish()
	w.began, w.steps, w.batch, w.idle = now, 0, w.batch[:0], false
	if w.role == decodes {
		w.join(now, done)
	} else {
		w.batch = w.prefillBatch(w.batch)
	}
	switch {
	case len(w.batch) > 0:
		tokens, host := 0, 0
		for _, p := range w.batch {
			tokens += p.tokens
			host += p.load
			p.load = 0
		}
		took := w.costs.prefill(tokens, host)
		w.until = now + took
		w.counts.prefilled += int64(tokens)
		w.counts.prefillBusy += took
		w.counts.busy += took
	case len(w.running) > 0:
		w.startDecode(now)
	default:
		w.idle, w.until = true, w.nextReady(now)
	}
}

// publish tells of the pages that came and went. An engine does so behind a batch: the pages that
// a prompt displaces count as there until it is computed.
func (w *worker) publish() {
	if len(w.untold) > 0 {
		w.tell(w.untold)
		w.untold = w.untold[:0]
	}
}

// nextReady is when something comes that a request waits for.
func (w *worker) nextReady(now clock) clock {
	at := never
	if w.nodeTier != nil {
		for _, t := range w.waiting {
			if t.ready > now {
				at = min(at, t.ready)
			}
		}
	}
	return at
}

// startDecode plans decode steps until the first request of the batch ends.
func (w *worker) startDecode(now clock) {
	w.steps, w.context = 1<<30, 0
	for _, t := range w.running {
		w.steps = min(w.steps, t.output-t.made)
		w.context += int64(t.input + t.made)
	}
	if at := w.nextReady(now); at < never {
		w.steps = w.costs.stepsBy(len(w.running), w.context, at-now, w.steps)
	}
	w.until = now + w.costs.decode(len(w.running), w.context, w.steps)
	w.pace = w.costs.pace(len(w.running), w.context)
}

// decoded ends the steps under way.
func (w *worker) decoded(now clock, done func(t *task, now clock)) {
	w.counts.busy += now - w.began
	w.counts.generated += int64(w.steps) * int64(len(w.running))
	keep := w.running[:0]
	w.gaps.addSteps(w.pace.first+w.pace.more, w.pace.more, w.steps-1, len(w.running))
	for _, t := range w.running {
		w.gaps.add(w.began + w.pace.first - t.last)
		t.last = now
		if t.made += w.steps; t.made < t.output {
			keep = append(keep, t)
			continue
		}
		if w.role == decodes {
			w.leave(t, now, done)
		} else {
			w.finish(t, now, done)
		}
	}
	clear(w.running[len(keep):])
	w.running = keep
}

// report returns a worker's load. The uncached tokens of its queue are those that routers
// expected; an engine counts them by its own tree, which differs only by evicted pages.
func (w *worker) report(now clock) report {
	r := report{at: now, prefilled: w.counts.prefilled, prefillBusy: w.counts.prefillBusy}
	for _, t := range w.waiting {
		r.waiting += int64(t.uncached)
	}
	if w.chunked != nil {
		r.waiting += int64(w.chunked.input - w.chunked.computed)
	}
	unfinished := 0
	for _, p := range w.batch {
		r.waiting += int64(p.tokens)
		unfinished++
	}
	if left := w.until - now; unfinished > 0 && left < w.until-w.began {
		done := float64(now-w.began) / float64(w.until-w.began)
		for _, p := range w.batch {
			r.waiting -= int64(done*float64(p.tokens)/float64(w.plan.page)) * int64(w.plan.page)
		}
	}
	r.begun = int64(len(w.running))
	r.requests = int64(len(w.waiting)+len(w.running)) + int64(unfinished)
	r.used = int64(w.taken+w.cache.locked) * int64(w.plan.page)
	return r
}
