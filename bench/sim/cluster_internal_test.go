package sim

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/bench/trace"
	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/load"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
	"github.com/warmpath/warmpath/zmq"
)

// cluster is a router's fleet, index and choice in front of simulated ranks, without sockets and on
// the fake clock of a test: the router sees load, speeds and events as it does over the wire, and no
// machine is late.
type cluster struct {
	ranks    map[string]*rank // by host
	sockets  map[string]*feed // by endpoint
	registry *worker.Registry
	router   *routing.Router
	said     bytes.Buffer // the router's log

	approx *routing.ApproxIndex // nil: the router has none
	silent bool                 // no rank publishes events
	twist  twist                // of the ranks' events; nil: they are true

	twisting sync.Mutex // held by twist
}

// twist changes the messages of a rank on their way.
type twist func(rank int, m zmq.Message, to outlet)

// outlet sends messages as a rank's.
type outlet struct {
	live, kept func(rank int, m zmq.Message) // kept for replays
}

// say sends a message, to the replay too.
func (o outlet) say(rank int, m zmq.Message) {
	o.kept(rank, m)
	o.live(rank, m)
}

// feed is a ZMQ publisher in memory.
type feed struct {
	mu   sync.Mutex
	sent uint64
	kept []zmq.Message
	subs []chan zmq.Message
	lie  func(zmq.Message) // sends the message; nil: it is sent as it is
}

func (w *feed) Publish(payload []byte) uint64 {
	w.mu.Lock()
	m := zmq.Message{Seq: w.sent, Payload: payload}
	w.sent++
	w.mu.Unlock()
	if w.lie != nil {
		w.lie(m)
	} else {
		w.keep(m)
		w.say(m)
	}
	return m.Seq
}

// keep keeps a message for replays.
func (w *feed) keep(m zmq.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, m.Clone())
}

// say sends a message.
func (w *feed) say(m zmq.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.subs {
		s <- m.Clone() // its reader may clear it
	}
}

func (w *feed) PublishDropped([]byte) uint64 { panic("no faults here") }
func (w *feed) Skip() uint64                 { panic("no faults here") }

func (c *cluster) subscribe(ctx context.Context, s zmq.Subscription) error {
	w, ch := c.sockets[s.Endpoint], make(chan zmq.Message, 1<<16)
	w.mu.Lock()
	w.subs = append(w.subs, ch)
	w.mu.Unlock()
	if s.OnConnect != nil {
		s.OnConnect()
	}
	if s.Every == 0 {
		s.Every, s.OnTick = time.Hour, func() {}
	}
	if s.Pace == nil {
		s.Pace = func() time.Duration { return s.Every }
	}
	tick := time.NewTimer(s.Every)
	defer tick.Stop()
	for {
		select {
		case m := <-ch:
			s.OnMessage(m)
		case <-tick.C:
			s.OnTick()
			tick.Reset(s.Pace())
		case <-ctx.Done():
			return nil
		}
	}
}

func (c *cluster) replay(_ context.Context, endpoint string, from uint64, fn func(zmq.Message) error) (n int, err error) {
	w := c.sockets[endpoint]
	w.mu.Lock()
	kept := slices.Clone(w.kept)
	w.mu.Unlock()
	for _, m := range kept {
		if m.Seq < from {
			continue
		}
		if err = fn(m); err != nil {
			break
		}
		n++
	}
	return n, err
}

// dial connects to the operator API of a worker.
func (c *cluster) dial(_ context.Context, _, addr string) (net.Conn, error) {
	here, there := net.Pipe()
	host, _, _ := net.SplitHostPort(addr)
	go func() {
		defer func() { _ = there.Close() }()
		in := bufio.NewReader(there)
		for req := new(fasthttp.RequestHeader); req.Read(in) == nil; {
			body := c.describe(host)
			if strings.HasPrefix(string(req.RequestURI()), "/v1/loads") {
				body = string(appendLoad([]byte(`{"loads":[`), time.Now(), c.ranks[host].report.snapshot(), false)) + "]}"
			}
			if _, err := fmt.Fprintf(there, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
				return
			}
		}
	}()
	return here, nil
}

// describe is the answer to all other questions.
func (c *cluster) describe(host string) string {
	cfg, published, publisher := c.ranks[host].cfg, "", "zmq"
	if c.silent {
		publisher = "null"
	}
	if c.ranks[host].report.loads != nil {
		published = `,"load_endpoint_port_base":3,"load_topic":"load"`
	}
	return fmt.Sprintf(`{"model_path":"m","served_model_name":"m","page_size":%d,"dp_size":1,"max_total_num_tokens":%d,"max_running_requests":%d,"chunked_prefill_size":%d,
		"version":"0.5.23","startup_time":1,"kv_events":{"publisher":%q,"endpoint_host":%q,"endpoint_port_base":1,"replay_endpoint_port_base":2,"topic":"kv-events","block_size":%d,
		"dp_size":1%s},"data":[{"id":"m"}]}`, cfg.PageSize, cfg.CachePages*cfg.PageSize, cfg.MaxRunning, cfg.Service.ChunkedPrefill, publisher, host, cfg.PageSize, published)
}

// newCluster starts a rank for each configuration.
func newCluster(ctx context.Context, t *testing.T, p policy.Policy, all []Config, polled bool, seed uint64) *cluster {
	t.Helper()
	b := &cluster{}
	b.start(ctx, t, p, all, polled, seed)
	for _, r := range b.registry.Snapshot().Ranks {
		require.True(t, r.Exact(), "events of %s", r.ID())
	}
	return b
}

// start starts a rank for each configuration, and a router in front of them.
func (c *cluster) start(ctx context.Context, t *testing.T, p policy.Policy, all []Config, polled bool, seed uint64) {
	t.Helper()
	c.ranks, c.sockets = map[string]*rank{}, map[string]*feed{}
	log := slog.New(slog.NewTextHandler(&c.said, nil))
	index := radix.New(radix.Config{Seed: 1})
	cleared, observers := func(*worker.Rank) {}, worker.Observers{}
	if c.approx != nil {
		cleared, observers = c.approx.ClearRank, worker.Observers{c.approx}
	}
	intake := ingest.NewManager(ingest.Config{Log: log, OnRestart: cleared, OnClear: cleared}, index, c.subscribe, c.replay)
	c.registry = worker.NewRegistry(worker.Config{Timeout: time.Minute, Log: log, Dial: c.dial}, append(observers, intake, load.New(c.subscribe, log)))
	for i := range all {
		cfg := all[i].withDefaults()
		host, events, loads := fmt.Sprintf("w%d", i), &feed{}, publisher(nil)
		if c.twist != nil {
			of := func(rank int) *feed { return c.sockets[fmt.Sprintf("tcp://w%d:1", rank)] }
			events.lie = func(m zmq.Message) {
				c.twisting.Lock()
				defer c.twisting.Unlock()
				c.twist(i, m, outlet{live: func(rank int, m zmq.Message) { of(rank).say(m) }, kept: func(rank int, m zmq.Message) { of(rank).keep(m) }})
			}
		}
		if !polled {
			w := &feed{}
			loads, c.sockets["tcp://"+host+":3"] = w, w
		}
		c.sockets["tcp://"+host+":1"], c.sockets["tcp://"+host+":2"] = events, events
		k := newRank(0, &cfg, newFaults(), events, loads)
		c.ranks[host] = k
	}
	for i := range all {
		go c.ranks[fmt.Sprintf("w%d", i)].run(ctx)
	}
	for i := range all {
		_, err := c.registry.Add(fmt.Sprintf("http://w%d:80", i))
		require.NoError(t, err)
	}
	var drawn atomic.Uint64
	c.router = routing.New(c.registry, index, intake.View, p, func() uint64 { return mix(seed<<32 + drawn.Add(1)) })
	c.router.Approx = c.approx
	go func() { _ = c.registry.Run(ctx) }()
	time.Sleep(5 * time.Second)
}

// served is a request that was sent.
type served struct {
	*request
	scratch  *routing.Scratch
	routed   routing.Prompt
	decision routing.Decision
	lease    worker.Lease
	flight   *routing.Prediction
	began    time.Time
	ttft     time.Duration
}

// send chooses a rank for a request, as package request does.
func (c *cluster) send(t *testing.T, i int, from *trace.Request) *served {
	t.Helper()
	r := &served{request: requestOf(i, from), scratch: new(routing.Scratch), began: time.Now()}
	r.stream = true
	p := &r.routed
	*p = routing.Prompt{Model: "m", Tokens: r.prompt, Exact: true, DP: -1, Output: from.Output}
	var err error
	r.decision, err = c.router.Pick(r.scratch, p, nil)
	require.NoError(t, err)
	d := &r.decision
	r.lease = d.Rank.Load.BeginWork(r.began, d.Work(p.Output, true))
	r.flight = c.router.Dispatch(r.scratch, p, d)
	c.router.Sent(r.scratch, d)
	host, _, _ := strings.Cut(strings.TrimPrefix(d.Rank.Worker.URL, "http://"), ":")
	c.ranks[host].submit(r.request)
	return r
}

// await follows the answer to its end.
func (c *cluster) await(r *served) {
	for range r.wake {
		state := r.current()
		if r.ttft == 0 && len(state.out) > 0 {
			r.ttft = time.Since(r.began)
			r.lease.FirstToken(time.Now())
			r.lease.FirstByte()
			r.flight.Prefilled()
		}
		if state.reason.kind != "" {
			r.decision.Rank.Trust.Observe(time.Now(), r.decision.Cached, state.cached)
			c.router.Answered(r.scratch, &r.routed, &r.decision, len(r.prompt), state.cached)
			r.lease.End()
			c.router.Finish(r.scratch, r.flight, state.out, time.Now())
			return
		}
	}
}

// live plays requests in a bubble. Times are those of the ranks.
func live(t *testing.T, p policy.Policy, workers []Config, polled bool, seed uint64, all []trace.Request) (sum played) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		scale := max(workers[0].TimeScale, 1)
		b := newCluster(ctx, t, p, workers, polled, seed)
		began := time.Now()
		times, requests := make([]time.Duration, len(all)), make([]*request, len(all))
		var flying sync.WaitGroup
		for i := range all {
			time.Sleep(time.Until(began.Add(time.Duration(float64(all[i].At) / scale))))
			r := b.send(t, i, &all[i])
			flying.Go(func() {
				b.await(r)
				times[i], requests[i] = time.Duration(float64(r.ttft)*scale), r.request
			})
		}
		flying.Wait()
		cancel()
		time.Sleep(time.Minute) // idle connections of probes
		sum = playedOf(times, requests)
	})
	return sum
}
