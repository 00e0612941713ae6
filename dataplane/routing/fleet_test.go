package routing_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

const (
	model = "tiny"
	page  = 4
)

// node is a worker in memory.
type node struct {
	models, mode string
	dp, tp       int
	cache        bool // of a decode worker: it keeps prefixes
	perGiB       int  // tokens in a GiB of KV; 0: it tells none
}

// describe is the node's answer to every GET.
func (n *node) describe() string {
	return fmt.Sprintf(`{"dp_size":%d,"tp_size":%d,"page_size":%d,"disaggregation_mode":%q,"disaggregation_decode_enable_radix_cache":%v,"data":[%s],
		"memory_usage":{"kvcache":1,"token_capacity":%d}}`, max(n.dp, 1), n.tp, page, n.mode, n.cache, n.models, n.perGiB)
}

func named(models ...string) string {
	var out []string
	for _, m := range models {
		out = append(out, fmt.Sprintf(`{"id":%q}`, m))
	}
	return strings.Join(out, ",")
}

// tiny is a node that serves the tests' model.
func tiny() *node { return &node{models: named(model)} }

// fleet is a router over nodes, with an index that the test fills.
type fleet struct {
	t        testing.TB
	registry *worker.Registry
	index    *radix.Index
	shapes   []ingest.Shape
	router   *routing.Router
	ranks    []*worker.Rank // by URL, then rank
	spy      *spy
	scratch  routing.Scratch

	mu    sync.Mutex
	state map[string]worker.State // that a node is made to have, by address; guarded by mu
	done  chan struct{}
}

// spy is a policy that records its input and picks a fixed candidate.
type spy struct {
	pick       int
	req        policy.Request
	candidates []policy.Candidate
}

func (*spy) Name() string { return "spy" }

func (*spy) Needs() policy.Needs { return policy.NeedsOverlap | policy.NeedsTokens }

func (s *spy) Pick(req policy.Request, candidates []policy.Candidate) policy.Choice {
	s.req, s.candidates = req, append(s.candidates[:0], candidates...)
	return policy.Choice{Index: min(s.pick, len(candidates)-1)}
}

// newFleet starts nodes and waits until all have described themselves.
func newFleet(t testing.TB, nodes ...*node) *fleet {
	t.Helper()
	f := &fleet{t: t, index: radix.New(radix.Config{Seed: 1}), spy: &spy{}, state: map[string]worker.State{}, done: make(chan struct{})}
	byAddr := map[string]*node{}
	f.registry = worker.NewRegistry(worker.Config{
		Interval: time.Hour, Log: slog.New(slog.DiscardHandler),
		Dial: func(_ context.Context, _, addr string) (net.Conn, error) {
			addr = addr[:strings.IndexByte(addr, ':')] + ":1" // a prefill worker's bootstrap server answers as the worker does
			return f.dial(byAddr[addr], addr)
		},
	}, nil)
	for i, n := range nodes {
		byAddr[fmt.Sprintf("n%02d:1", i)] = n
	}
	for addr := range byAddr {
		_, err := f.registry.Add("http://" + addr)
		require.NoError(t, err)
	}
	f.shapes = []ingest.Shape{{Model: model, BlockSize: page}}
	f.router = f.with(f.spy)
	f.await()
	t.Cleanup(func() {
		close(f.done)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		require.NoError(t, f.registry.Run(ctx))
	})
	return f
}

// await waits until all workers are ready.
func (f *fleet) await() {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		f.ranks = f.registry.Snapshot().Ranks
		ready := true
		for _, w := range f.registry.Snapshot().Workers {
			if w.State() != worker.Ready {
				ready = false
				w.Probe() // on a slow machine the one before may have come too late
			}
		}
		return ready
	}, 5*time.Minute, time.Millisecond, "nodes did not become ready")
}

// with returns a router over the fleet with another policy.
func (f *fleet) with(p policy.Policy) *routing.Router {
	return routing.New(f.registry, f.index, func() *ingest.View { return &ingest.View{Shapes: f.shapes} }, p, func() uint64 { return 42 })
}

// dial connects to a node, as its state has it.
func (f *fleet) dial(n *node, addr string) (net.Conn, error) {
	f.mu.Lock()
	state, forced := f.state[addr]
	f.mu.Unlock()
	if forced && state == worker.Dead {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	here, there := net.Pipe()
	go func() {
		defer func() { _ = there.Close() }()
		in := bufio.NewReader(there)
		for req := new(fasthttp.RequestHeader); req.Read(in) == nil; {
			f.mu.Lock()
			state, forced := f.state[addr]
			f.mu.Unlock()
			status, body := fasthttp.StatusOK, n.describe()
			switch {
			case forced && state == worker.Slow:
				<-f.done
				return
			case forced && state == worker.Dead:
				return
			case forced && state == worker.Probing:
				status = fasthttp.StatusServiceUnavailable
			}
			if _, err := fmt.Fprintf(there, "HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body); err != nil {
				return
			}
		}
	}()
	return here, nil
}

// force makes a rank's worker have a state, by the way that it answers.
func (f *fleet) force(rank int, s worker.State) {
	f.t.Helper()
	w := f.ranks[rank].Worker
	f.mu.Lock()
	f.state[w.Addr] = s
	f.mu.Unlock()
	require.Eventually(f.t, func() bool {
		if w.State() == s {
			return true
		}
		w.Probe() // again and again: on a slow machine an answer may come too late
		return false
	}, 5*time.Minute, time.Millisecond, "worker did not become %v", s)
}

// holds gives a rank one more holder, which has the leading blocks of a prompt
// in a tier.
func (f *fleet) holds(rank int, k radix.DomainKey, tokens []uint32, blocks int, tier radix.Tier) radix.Worker {
	f.t.Helper()
	id := f.index.AddWorker()
	r := f.ranks[rank]
	r.SetIndexIDs(append(append([]uint32{}, r.IndexIDs()...), uint32(id)))
	f.store(id, k, tokens, blocks, tier)
	return id
}

// store gives a holder the leading blocks of a prompt.
func (f *fleet) store(id radix.Worker, k radix.DomainKey, tokens []uint32, blocks int, tier radix.Tier) {
	f.t.Helper()
	if k.Model == "" {
		k.Model = model
	}
	if k.BlockSize == 0 {
		k.BlockSize = page
	}
	width := k.BlockSize
	if k.Bigram {
		tokens, width = pairs(tokens), 2*k.BlockSize
	}
	chain := f.index.AppendHashes(nil, tokens, width)[:blocks]
	names := make([]uint64, blocks)
	for i := range names {
		names[i] = uint64(chain[i]) ^ uint64(i)<<1 ^ uint64(id)<<50
	}
	require.NoError(f.t, f.index.Store(radix.Store{Worker: id, Domain: f.index.Domain(k), Tier: tier, Engine: names, Blocks: chain}))
}

func pairs(tokens []uint32) (out []uint32) {
	for i := range len(tokens) - 1 {
		out = append(out, tokens[i], tokens[i+1])
	}
	return out
}

// tokens returns n tokens that no other id's begin with.
func tokens(id uint32, n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = id<<16 + uint32(i)
	}
	return out
}

// prompt is an exact prompt for any rank.
func prompt(ids []uint32) *routing.Prompt {
	return &routing.Prompt{Model: model, Tokens: ids, Exact: true, DP: -1}
}

// pick routes with the spy and returns the cached tokens of each candidate.
func (f *fleet) pick(p *routing.Prompt, tried ...*worker.Rank) (cached []int, d routing.Decision) {
	f.t.Helper()
	d, err := f.router.Pick(&f.scratch, p, tried)
	require.NoError(f.t, err)
	for _, c := range f.spy.candidates {
		cached = append(cached, c.Cached)
	}
	return cached, d
}

// bubble runs test over a fleet where time is its own.
func bubble(t *testing.T, nodes int, test func(f *fleet)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // the clients' cleaners of connections end
		var all []*node
		for range nodes {
			all = append(all, tiny())
		}
		test(newFleet(t, all...))
	})
}

// ranksOf names ranks, for comparing them: their workers change meanwhile.
func ranksOf(ranks ...*worker.Rank) (ids []string) {
	for _, r := range ranks {
		ids = append(ids, r.ID())
	}
	return ids
}
