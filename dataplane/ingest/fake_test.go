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

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/leaktest"
	"github.com/warmpath/warmpath/zmq"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var errNoAnswer = errors.New("no answer")

// publisher is one rank's event sockets, in memory.
type publisher struct {
	mu      sync.Mutex
	subs    map[int]*subscriber // guarded by mu, as is all below
	subbed  int
	hwm     int // messages waiting for a subscriber; 0 is no bound
	dropped int
	down    error // why no connection is possible; replays may answer
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
	refused // there is no listener
	hungUp  // at once
	faults
)

// subscriber is a subscription with its unread messages.
type subscriber struct {
	zmq.Subscription
	waiting []zmq.Message
	more    chan struct{}
	lost    chan struct{} // its connection breaks, and stands again
}

// newPublisher returns a publisher without subscribers.
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

// reconnect breaks the connections; they stand again at once. Unread messages are lost.
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
	switch how {
	case silent, refused:
		<-ctx.Done()
		return 0, ctx.Err()
	case hungUp:
		return 0, errNoAnswer
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
