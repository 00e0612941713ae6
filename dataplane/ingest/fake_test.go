package ingest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/worker"
	"github.com/warmpath/warmpath/radix"
	"github.com/warmpath/warmpath/zmq"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errNoAnswer = errors.New("no answer")

// publisher is one rank's event sockets, in memory.
type publisher struct {
	mu      sync.Mutex
	subs    map[int]*subscriber // guarded by mu, as is all below
	subbed  int
	hwm     int // messages waiting for a subscriber; 0 is no bound
	dropped int
	down    error // why nobody can connect; replays may answer
	seq     uint64
	kept    []zmq.Message // for replay
	keep    int           // at most so many; 0 is all
	replays int
	broken  bool          // replays fail
	fault   func() fault  // of the next replay; nil: none has any
	others  []zmq.Message // that a replay by another process brings
	gate    chan struct{} // replays wait for it before they begin, unless nil
	hold    chan struct{} // and for this before their end
}

// fault is how a replay goes wrong.
type fault int

const (
	whole fault = iota
	silent
	slow    // 300 ms for each message
	half    // and then nothing more
	holed   // lacks some
	foreign // another process's
	refused // nobody listens there
	faults
)

// subscriber is one who listens, and what waits for it.
type subscriber struct {
	zmq.Subscription
	waiting []zmq.Message
	more    chan struct{}
	lost    chan struct{} // its connection breaks, and stands again
}

// newPublisher returns one that nobody listens to.
func newPublisher() *publisher { return &publisher{subs: map[int]*subscriber{}} }

// publish sends events; over the wire only if live.
func (p *publisher) publish(live bool, events ...kvevent.Event) uint64 {
	b := kvevent.Batch{Time: float64(time.Now().UnixNano()) / 1e9, Events: events}
	return p.send(live, kvevent.Append(nil, &b, kvevent.SGLang0523))
}

func (p *publisher) send(live bool, payload []byte) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	msg := zmq.Message{Seq: p.seq, Payload: payload}
	p.seq++
	p.kept = append(p.kept, msg)
	if p.keep > 0 && len(p.kept) > p.keep {
		p.kept = p.kept[len(p.kept)-p.keep:]
	}
	if live {
		for _, s := range p.subs {
			p.put(s, msg)
		}
	}
	return msg.Seq
}

func (p *publisher) put(s *subscriber, msg zmq.Message) {
	if p.hwm > 0 && len(s.waiting) >= p.hwm {
		p.dropped++
		return
	}
	s.waiting = append(s.waiting, msg)
	wake(s.more)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// reconnect breaks the connections; they stand again at once. What waits is lost.
func (p *publisher) reconnect() {
	p.with(func() {
		for _, s := range p.subs {
			s.waiting = nil
			wake(s.lost)
		}
	})
}

// restart is a new process: sequence 0 and nothing to replay.
func (p *publisher) restart() { p.with(func() { p.seq, p.kept = 0, nil }) }

// with changes p.
func (p *publisher) with(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// asked returns how many replays were asked for.
func (p *publisher) asked() (n int) {
	p.with(func() { n = p.replays })
	return n
}

// subscribe is the ingest.Subscriber.
func (p *publisher) subscribe(ctx context.Context, sub zmq.Subscription) error {
	s := &subscriber{Subscription: sub, more: make(chan struct{}, 1), lost: make(chan struct{}, 1)}
	var id int
	p.with(func() {
		p.subbed++
		id = p.subbed
	})
	defer p.with(func() { delete(p.subs, id) })
	tick := time.NewTimer(s.Every)
	defer tick.Stop()
	onTick := func() {
		s.OnTick()
		tick.Reset(s.Pace())
	}
	for ctx.Err() == nil {
		var down error
		p.with(func() { down = p.down })
		if down == nil {
			break
		}
		s.OnDisconnect(down)
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		case <-tick.C:
			onTick()
		}
	}
	p.with(func() { p.subs[id] = s })
	s.OnConnect()
	for ctx.Err() == nil {
		var next []zmq.Message
		p.with(func() {
			if len(s.waiting) > 0 {
				next, s.waiting = s.waiting[:1], s.waiting[1:]
			}
		})
		if len(next) > 0 {
			m := next[0].Clone()
			s.OnMessage(m)
			clear(m.Payload) // It was the callback's until now.
			continue
		}
		select {
		case <-ctx.Done():
		case <-s.more:
		case <-s.lost:
			s.OnDisconnect(errNoAnswer)
			s.OnConnect()
		case <-tick.C:
			onTick()
		}
	}
	return nil
}

func (p *publisher) replay(ctx context.Context, from uint64, fn func(zmq.Message) error) (n int, err error) {
	p.mu.Lock()
	gate := p.gate
	p.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	p.mu.Lock()
	p.replays++
	kept, hold, broken := append([]zmq.Message{}, p.kept...), p.hold, p.broken
	p.mu.Unlock()
	if broken {
		<-ctx.Done()
		return 0, fmt.Errorf("cannot replay: %w: %w", errNoAnswer, ctx.Err())
	}
	how := whole
	p.with(func() {
		if p.fault != nil {
			how = p.fault()
		}
		if how == foreign {
			kept = append([]zmq.Message{}, p.others...)
		}
	})
	if how == silent || how == refused {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	for i, msg := range kept {
		switch {
		case msg.Seq < from, how == holed && i%3 == 1 && i < len(kept)-1: // nothing tells of the last one
			continue
		case how == half && i >= len(kept)/2:
			<-ctx.Done()
			return n, ctx.Err()
		case how == slow:
			select {
			case <-time.After(300 * time.Millisecond):
			case <-ctx.Done():
				return n, ctx.Err()
			}
		}
		if err := fn(msg); err != nil {
			return n, fmt.Errorf("cannot replay: %w", err)
		}
		n++
	}
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return n, ctx.Err()
		}
	}
	return n, nil
}

// network finds publishers by their endpoints.
type network map[string]*publisher

func (n network) subscribe(ctx context.Context, s zmq.Subscription) error {
	p, ok := n[s.Endpoint]
	if !ok {
		return fmt.Errorf("no publisher at %s", s.Endpoint)
	}
	return p.subscribe(ctx, s)
}

func (n network) replay(ctx context.Context, endpoint string, from uint64, fn func(zmq.Message) error) (int, error) {
	return n[endpoint].replay(ctx, from, fn)
}

// workers returns a registry over workers in memory, each with dp ranks. It
// ends with the test.
func workers(t *testing.T, dp int, urls ...string) []*worker.Worker {
	t.Helper()
	body := fmt.Sprintf(`{"dp_size":%d,"data":[{"id":"tiny"}]}`, dp)
	answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	dial := func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer func() { _ = there.Close() }()
			in := bufio.NewReader(there)
			for req := new(fasthttp.RequestHeader); req.Read(in) == nil; {
				if _, err := there.Write([]byte(answer)); err != nil {
					return
				}
			}
		}()
		return here, nil
	}
	r := worker.NewRegistry(worker.Config{Interval: time.Hour, Dial: dial, Log: slog.New(slog.DiscardHandler)}, nil)
	var all []*worker.Worker
	for _, url := range urls {
		w, err := r.Add(url)
		require.NoError(t, err)
		all = append(all, w)
	}
	synctest.Wait()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		require.NoError(t, r.Run(ctx))
		time.Sleep(time.Minute) // the bubble's: the client's cleaner of connections ends
	})
	for _, w := range all {
		require.Len(t, w.Ranks(), dp)
	}
	return all
}

// world is a manager that follows one worker.
type world struct {
	t      *testing.T
	net    network
	pubs   []*publisher // by rank
	index  *radix.Index
	m      *ingest.Manager
	worker *worker.Worker
	info   *worker.Info
}

const (
	model = "tiny"
	page  = 4
)

// inWorld runs test in a bubble with a worker of dp ranks whose publishers it
// may prepare. The manager does not follow it yet.
func inWorld(t *testing.T, cfg ingest.Config, dp int, test func(w *world)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		w := &world{t: t, net: network{}, index: radix.New(radix.Config{Seed: 1}), worker: workers(t, dp, "http://a:1")[0]}
		w.info = &worker.Info{Models: []string{model}, DPSize: dp, Events: &worker.Events{BlockSize: page}}
		for i := range dp {
			p := newPublisher()
			live, replay := fmt.Sprintf("live%d", i), fmt.Sprintf("replay%d", i)
			w.net[live], w.net[replay] = p, p
			w.pubs = append(w.pubs, p)
			w.info.Events.Endpoints = append(w.info.Events.Endpoints, live)
			w.info.Events.Replays = append(w.info.Events.Replays, replay)
		}
		cfg.Log = slog.New(slog.DiscardHandler)
		w.m = ingest.NewManager(cfg, w.index, w.net.subscribe, w.net.replay)
		defer w.end()
		test(w)
	})
}

// end stops the manager's streams and checks that they leave nothing.
func (w *world) end() {
	w.m.Down(w.worker)
	require.Zero(w.t, w.index.Stats().Workers, "holders after the end")
	require.Zero(w.t, w.index.Stats().Entries, "blocks after the end")
	for i, p := range w.pubs {
		require.Empty(w.t, p.subs, "subscriptions of rank %d after the end", i)
	}
}

func (w *world) up() {
	w.m.Up(w.worker, w.info)
	synctest.Wait()
}

// after lets d pass and everything settle.
func (w *world) after(d time.Duration) {
	time.Sleep(d) // of the bubble's clock
	synctest.Wait()
}

func (w *world) stream(rank int) *ingest.Stream {
	w.t.Helper()
	s := w.m.Stream(w.worker.Ranks()[rank])
	require.NotNil(w.t, s, "stream of rank %d", rank)
	return s
}

func (w *world) stats() *ingest.Stats { return &w.stream(0).Stats }

// held returns how many leading blocks of a prompt a rank has: what all of its
// holders have.
func (w *world) held(rank int, k radix.DomainKey, tokens []uint32) (blocks int) {
	k.Model, k.BlockSize = model, page
	d, ok := w.index.FindDomain(k)
	if !ok {
		return 0
	}
	width := page
	if k.Bigram {
		width *= 2
	}
	found := map[uint32]int{}
	for _, o := range w.index.Match(nil, d, w.index.AppendHashes(nil, tokens, width)) {
		found[uint32(o.Worker)] = int(o.Blocks)
	}
	for i, id := range w.worker.Ranks()[rank].Holders() {
		if i == 0 || found[id] < blocks {
			blocks = found[id]
		}
	}
	return blocks
}

// credited is held for rank 0 as far as routing believes it.
func (w *world) credited(tokens []uint32) int {
	if w.worker.Ranks()[0].Doubt() != worker.NoDoubt {
		return 0
	}
	return w.held(0, radix.DomainKey{}, tokens)
}

// wantHeld is held for rank 0 and plain prompts.
func (w *world) wantHeld(want int, tokens []uint32, msg string) {
	w.t.Helper()
	require.Equal(w.t, want, w.held(0, radix.DomainKey{}, tokens), "blocks held: %s", msg)
}

// prompt returns n blocks of tokens that no other prompt begins with.
func prompt(id uint32, n int) []uint32 {
	tokens := make([]uint32, n*page)
	for i := range tokens {
		tokens[i] = id<<16 + uint32(i)
	}
	return tokens
}

// store is the event of blocks [from, to) of a prompt, by SGLang's names.
func store(tokens []uint32, from, to int) kvevent.Event {
	names := kvevent.SGLangHashes(nil, tokens, page, "")
	ev := kvevent.Event{
		Kind: kvevent.Stored, Hashes: names[from:to], Tokens: tokens[from*page : to*page], BlockSize: page, Medium: kvevent.MediumGPU,
	}
	if from > 0 {
		ev.Parent, ev.HasParent = names[from-1], true
	}
	return ev
}

// remove is the event of blocks [from, to) leaving the GPU.
func remove(tokens []uint32, from, to int) kvevent.Event {
	return kvevent.Event{
		Kind: kvevent.Removed, Hashes: kvevent.SGLangHashes(nil, tokens, page, "")[from:to], Medium: kvevent.MediumGPU,
	}
}

var cleared = kvevent.Event{Kind: kvevent.Cleared}
