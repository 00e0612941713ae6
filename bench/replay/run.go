package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fastjson"

	"github.com/warmpath/warmpath/bench/trace"
)

// Config says how a trace is replayed.
type Config struct {
	API        API
	Model      string     // empty: the server's only model
	Vocabulary Vocabulary // zero: ids 100 to 32,099, which every large model has
	TimeScale  float64    // seconds of the trace a second; default 1

	// Simulated says that the servers' own time runs TimeScale times as fast too. Measured
	// times are then multiplied by it.
	Simulated bool

	PageSize int         // tokens a block of X-Warmpath-Overlap; default 16
	Progress func(n int) // called after each answer with how many there were; may be nil
	// Session is the field with the session of a request: a header such as X-Session-ID, or a path
	// of the body such as metadata.user_id; empty: none is sent.
	Session string
}

func (c Config) withDefaults() Config {
	if c.TimeScale == 0 {
		c.TimeScale = 1
	}
	if c.Vocabulary.Size == 0 {
		c.Vocabulary = Vocabulary{First: 100, Size: 32_000}
	}
	if c.PageSize == 0 {
		c.PageSize = 16
	}
	return c
}

// ErrConfig is a configuration that cannot be replayed.
var ErrConfig = errors.New("replay: bad configuration")

func (c Config) check() error {
	if !(c.TimeScale > 0) || c.PageSize < 1 || c.API > APIMessages {
		// !(> 0) is also NaN.
		return fmt.Errorf("cannot replay with time scale %v, pages of %d tokens: %w", c.TimeScale, c.PageSize, ErrConfig)
	}
	return nil
}

// run is one replay under way.
type run struct {
	cfg     Config
	clients []*client  // one for each router
	rng     *rand.Rand // draws the next server; guarded by mu
	bodies  bodies
	pool    sync.Pool // of *worker

	mu     sync.Mutex
	all    int    // requests answered and failed; guarded by mu
	result Result // guarded by mu
}

// worker is the memory that one request needs.
type worker struct {
	body   []byte
	events events
	parser fastjson.Parser
}

// Run replays requests, in the order of their arrival, to the server at base, or by chance to one
// of several, with their URLs separated by commas, each at its time, and returns when all are
// answered. An error is one of the configuration or of ctx; failed requests are counted in the
// result, which comes with an error of ctx too.
func Run(ctx context.Context, base string, requests []trace.Request, cfg Config) (*Result, error) {
	r, err := newRun(base, cfg)
	if err != nil {
		return nil, err
	}
	defer r.close()
	began := time.Now()
	var flying sync.WaitGroup
	err = r.dispatch(ctx, requests, began, &flying)
	flying.Wait()
	r.result.finish(time.Since(began))
	return &r.result, err
}

// newRun prepares a replay to one server or several.
func newRun(base string, cfg Config) (*run, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, rng: rand.New(rand.NewPCG(1, 1)), bodies: bodies{api: cfg.API, vocabulary: cfg.Vocabulary}}
	for one := range strings.SplitSeq(base, ",") {
		c, err := newClient(one, cfg.API)
		if err != nil {
			return nil, err
		}
		r.clients = append(r.clients, c)
	}
	var err error
	if r.bodies.session, err = parseSessionField(cfg.Session); err != nil {
		return nil, err
	}
	if cfg.Model != "" {
		if r.bodies.model, err = json.Marshal(cfg.Model); err != nil {
			return nil, fmt.Errorf("cannot name model %q: %w", cfg.Model, err)
		}
	}
	r.pool.New = func() any { return new(worker) }
	r.result.start(cfg)
	return r, nil
}

// close ends the idle connections, after the last request.
func (r *run) close() {
	for _, c := range r.clients {
		c.http.CloseIdleConnections()
	}
}

// client is the server of a request, by chance; one goroutine draws at a time.
func (r *run) client() *client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clients[r.rng.IntN(len(r.clients))]
}

// dispatch starts each request when its time has come.
func (r *run) dispatch(ctx context.Context, requests []trace.Request, began time.Time, flying *sync.WaitGroup) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for i := range requests {
		request := &requests[i]
		due := began.Add(time.Duration(float64(request.At) / r.cfg.TimeScale))
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		r.late(due)
		flying.Go(func() { r.send(ctx, request, "", true) })
	}
	return nil
}

// late notes the delay of a request by this machine.
func (r *run) late(due time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.late(time.Since(due))
}

// send replays one request of a session, or of none, and adds its sample if it counts.
func (r *run) send(ctx context.Context, request *trace.Request, session string, counts bool) {
	c := r.client()
	w := r.pool.Get().(*worker)
	defer r.pool.Put(w)
	w.body = r.bodies.append(w.body[:0], request, session)
	w.events = events{api: r.cfg.API, last: w.events.last[:0], part: w.events.part[:0], gaps: w.events.gaps[:0]}

	began := time.Now()
	o := sample{}
	header, err := c.do(ctx, r.bodies.session, session, w.body, &w.events)
	if err == nil {
		o.worker, o.overlap, o.latency = header.Get("X-Warmpath-Worker"), header.Get("X-Warmpath-Overlap"), time.Since(began)
		o.usage, err = w.events.usage(&w.parser)
	} else {
		w.body = nil
	}
	if err == nil && w.events.first.IsZero() {
		err = fmt.Errorf("%w: no event has content", ErrAnswer)
	}
	o.err, o.ttft, o.events, o.gaps = err, w.events.first.Sub(began), w.events.count, w.events.gaps

	r.mu.Lock()
	if counts {
		r.result.add(&o)
	}
	r.all++
	if r.cfg.Progress != nil {
		r.cfg.Progress(r.all)
	}
	r.mu.Unlock()
}
