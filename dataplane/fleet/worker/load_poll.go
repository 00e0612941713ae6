package worker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fastjson"
)

const (
	// loadsTimeout bounds GET /v1/loads. Its answer waits for the engine's scheduler, and so for
	// the batch under way: a chunk of 8,192 tokens takes half a second on a large GPU.
	loadsTimeout = 2 * time.Second
	// publishedFor is how long a rank that has published its load is not polled. It publishes
	// once a second, so two reports are missing by then.
	publishedFor = 3 // seconds
	// modelsEvery is the time between two looks at a worker's models: adapters come and go while
	// it runs, and another model behind a proxy shows nowhere else. The answer takes 2 ms and no
	// scheduler.
	modelsEvery = 900 * time.Millisecond // a little below LoadEvery, because ticks may come early
	// An engine that publishes its load does so behind each prefill batch. A rank that does not is
	// asked when a request has begun to answer or has ended, which engines of any speed do at their
	// own pace, but so that polls take no more than a fiftieth of the time: 10 a second where an
	// answer takes 2 ms, and one in LoadEvery where the scheduler must answer.
	pollShare = 50
	// minPollEvery bounds the polls of an engine whose answers take next to nothing.
	minPollEvery = 20 * time.Millisecond
)

// poller asks one worker for its load and its models, which it does not publish. It is apart
// from the monitor: probes must not wait for a busy scheduler.
type poller struct {
	w      *Worker
	probe  *prober
	cancel context.CancelFunc
	done   chan struct{}
	models time.Time // when they were last read
	none   bool      // it has no /v1/loads
}

// startPoller starts a worker's poller; stop must follow.
func startPoller(ctx context.Context, w *Worker, cfg *Config) *poller {
	ctx, cancel := context.WithCancel(ctx)
	p := &poller{w: w, probe: newProber(ctx, w, cfg), cancel: cancel, done: make(chan struct{}), models: time.Now()}
	go p.run(ctx, cfg.LoadEvery)
	return p
}

func (p *poller) stop() {
	p.cancel()
	<-p.done
}

func (p *poller) run(ctx context.Context, every time.Duration) {
	defer close(p.done)
	defer p.probe.client.CloseIdleConnections()
	tick, again := time.NewTicker(every), time.NewTimer(0)
	defer tick.Stop()
	defer again.Stop()
	<-again.C
	stepped := p.w.Ranks()[0].Load.stepped
	steps, asked, took := stepped, time.Now(), time.Duration(0) // steps is nil while again runs
	for {
		select {
		case <-ctx.Done():
			return
		case <-steps:
			steps = nil
			again.Reset(time.Until(asked.Add(min(max(pollShare*took, minPollEvery), every))))
			continue
		case <-again.C:
			steps = stepped
			asked = time.Now()
			p.readLoads(ctx, asked)
		case now := <-tick.C:
			asked = now
			p.readLoads(ctx, now)
		}
		took = time.Since(asked)
		if asked.Sub(p.models) >= modelsEvery {
			p.models = asked
			p.readModels()
		}
	}
}

// readLoads asks for the load of ranks that do not publish it. A failure proves nothing: probes
// decide whether the worker lives.
func (p *poller) readLoads(ctx context.Context, now time.Time) {
	ranks := p.w.Ranks()
	quiet := slices.ContainsFunc(ranks, func(r *Rank) bool {
		v := r.Load.View(now)
		return v.Polled || v.Age < 0 || v.Age > publishedFor
	})
	if p.none || !quiet {
		return
	}
	a, err := p.probe.fetch("/v1/loads?include=core", loadsTimeout)
	if err != nil || ctx.Err() != nil { // after ctx the rank may be another process's
		return
	}
	if a.status != fasthttp.StatusOK {
		p.none = a.status == fasthttp.StatusNotFound || a.status == fasthttp.StatusMethodNotAllowed
		return
	}
	decodes := p.w.Role() == RoleDecode
	_ = parseLoadReports(a.body, func(rank int, r Report) {
		if !decodes { // waiting prompts elsewhere hold nothing yet, and may be cached
			r.Wanted = 0
		}
		if rank >= 0 && rank < len(ranks) {
			ranks[rank].Load.Report(time.Now(), r)
		}
	})
}

// parseLoadReports reads the body of GET /v1/loads (SGLang 0.5.23) and calls report for each rank.
func parseLoadReports(body []byte, report func(rank int, r Report)) error {
	v, err := fastjson.ParseBytes(body)
	if err != nil {
		return fmt.Errorf("cannot read /v1/loads: %w", err)
	}
	for _, l := range v.GetArray("loads") {
		report(l.GetInt("dp_rank"), Report{
			Running: l.GetInt64("num_running_reqs"), Waiting: l.GetInt64("num_waiting_reqs"),
			Queued: l.GetInt64("num_waiting_uncached_tokens"), Used: l.GetInt64("num_used_tokens"), Wanted: l.GetInt64("num_total_tokens"),
			Pool: l.GetInt64("max_total_num_tokens"), Most: l.GetInt64("max_running_requests"),
			Prefilled: l.GetInt64("total_prefill_uncached_tokens"), Busy: time.Duration(l.GetInt64("total_prefill_busy_us")) * time.Microsecond,
			Polled: true,
		})
	}
	return nil
}

// readModels learns which adapters are loaded now, and whether the worker still serves its model.
func (p *poller) readModels() {
	info := p.w.Info()
	said, err := p.probe.models(loadsTimeout)
	if err != nil || info == nil || said.empty() {
		return
	}
	if !info.knows(said) {
		p.w.Doubt() // other weights, or another process: the monitor finds out
		return
	}
	fresh := *info
	fresh.addNames(said)
	if fresh.MaxLen != info.MaxLen || !slices.Equal(fresh.Models, info.Models) {
		p.w.info.CompareAndSwap(info, &fresh) // else the monitor has just replaced the description
	}
}
