package zmq

import (
	"context"
	"errors"
	"fmt"
	"slices"

	zmq4 "github.com/pebbe/zmq4"
)

// DefaultBufferSteps is how many batches a publisher keeps for replay, as in SGLang.
const DefaultBufferSteps = 10_000

// PublisherConfig says what a publisher offers and where.
type PublisherConfig struct {
	Endpoint string // "tcp://host:port"; the port "*" or 0 picks a free one when binding.
	Bind     bool   // Listen; otherwise connect to a receiver that does.
	// ReplayEndpoint is where replay is asked for, always bound; "" offers none.
	ReplayEndpoint string
	// ReplayWithoutTopic leaves the topic frame out of answers, as SGLang up to 0.5.15 does.
	ReplayWithoutTopic bool
	// IgnoreReplay, which may be nil, is a fault: a request that comes while it reports true is never answered.
	IgnoreReplay func() bool

	Topic       string
	BufferSteps int    // Batches kept for replay; 0 is DefaultBufferSteps.
	HWM         int    // Messages queued per subscriber before they are dropped; 0 is DefaultHWM.
	FirstSeq    uint64 // A restarted engine begins at 0 again.
}

// Publisher sends what an engine's publisher sends, frame for frame.
type Publisher struct {
	lifetime
	endpoint, replayEndpoint string
	topic                    []byte
	replayWithoutTopic       bool
	ignoreReplay             func() bool
	limit                    int // Of queue.

	// Guarded by mu.
	next          uint64
	queue         []outgoing // For Run to send.
	dropped       int
	subscriptions int
	subscribed    chan struct{} // Closed and replaced when subscriptions grows.

	// Owned by the goroutine of Run.
	pub, router *zmq4.Socket
	kept        ring
}

// outgoing is a message on its way to subscribers, to the replay buffer, or to both.
type outgoing struct {
	seq     uint64
	payload []byte
	live    bool
}

// NewPublisher binds the sockets. The publisher holds them until the end of Run, or Close if Run is never called.
func NewPublisher(cfg PublisherConfig) (*Publisher, error) {
	p := &Publisher{
		topic: []byte(cfg.Topic), replayWithoutTopic: cfg.ReplayWithoutTopic, ignoreReplay: cfg.IgnoreReplay,
		limit: cfg.HWM, next: cfg.FirstSeq, subscribed: make(chan struct{}),
	}
	if p.limit == 0 {
		p.limit = DefaultHWM
	}
	p.kept.limit = cfg.BufferSteps
	if p.kept.limit == 0 {
		p.kept.limit = DefaultBufferSteps
	}
	if err := p.open(); err != nil {
		return nil, fmt.Errorf("cannot create publisher: %w", err)
	}
	if err := p.bind(&cfg); err != nil {
		return nil, fmt.Errorf("cannot create publisher: %w", errors.Join(err, p.release(p.pub, p.router)))
	}
	return p, nil
}

// bind opens the sockets. XPUB is PUB on the wire; it also tells us of subscriptions.
func (p *Publisher) bind(cfg *PublisherConfig) (err error) {
	if p.pub, err = p.zctx.NewSocket(zmq4.XPUB); err != nil {
		return err
	}
	err = each(
		func() error { return prepare(p.pub, cfg.Endpoint) },
		func() error { return p.pub.SetSndhwm(p.limit) },
		func() error { return p.pub.SetXpubVerbose(1) },
		func() error {
			if !cfg.Bind {
				p.endpoint = cfg.Endpoint
				return p.pub.Connect(cfg.Endpoint)
			}
			p.endpoint, err = listen(p.pub, cfg.Endpoint)
			return err
		},
	)
	if err != nil || cfg.ReplayEndpoint == "" {
		return err
	}
	if p.router, err = p.zctx.NewSocket(zmq4.ROUTER); err != nil {
		return err
	}
	return each(
		func() error { return prepare(p.router, cfg.ReplayEndpoint) },
		func() error { return p.router.SetSndhwm(0) }, // A whole buffer at once must not be dropped.
		func() error { p.replayEndpoint, err = listen(p.router, cfg.ReplayEndpoint); return err },
	)
}

// listen binds s and returns the address that it got.
func listen(s *zmq4.Socket, endpoint string) (string, error) {
	if err := s.Bind(endpoint); err != nil {
		return "", fmt.Errorf("cannot bind %q: %w", endpoint, err)
	}
	return s.GetLastEndpoint()
}

// Endpoint returns the address of the live stream, with the port that was picked.
func (p *Publisher) Endpoint() string { return p.endpoint }

// ReplayEndpoint returns the address to ask for replay, or "".
func (p *Publisher) ReplayEndpoint() string { return p.replayEndpoint }

// Publish sends a copy of payload to who is subscribed and keeps it for replay. It only queues; if Run falls behind by
// more than the high-water mark, the message is kept for replay but not sent live, and Dropped counts it.
func (p *Publisher) Publish(payload []byte) (seq uint64) { return p.put(payload, true) }

// PublishDropped is a fault: the message takes a sequence number and can be replayed, but no subscriber gets it.
func (p *Publisher) PublishDropped(payload []byte) (seq uint64) { return p.put(payload, false) }

func (p *Publisher) put(payload []byte, live bool) uint64 {
	payload = slices.Clone(payload)
	p.mu.Lock()
	defer p.mu.Unlock()
	if live && len(p.queue) >= p.limit {
		live = false
		p.dropped++
	}
	seq := p.next
	p.next++
	if !p.closed {
		p.queue = append(p.queue, outgoing{seq: seq, payload: payload, live: live})
		p.wake.wakeLocked()
	}
	return seq
}

// Skip is a fault: a sequence number that nobody ever sees again, live or replayed.
func (p *Publisher) Skip() (seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	return p.next - 1
}

// Dropped returns how many messages were not sent live because Run fell behind.
func (p *Publisher) Dropped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// WaitSubscriptions returns when subscribers have asked for topics n times in all since the start: what is published
// afterwards reaches them. Each connection of a subscriber counts.
func (p *Publisher) WaitSubscriptions(ctx context.Context, n int) error {
	for {
		p.mu.Lock()
		enough, more := p.subscriptions >= n, p.subscribed
		p.mu.Unlock()
		if enough {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return fmt.Errorf("cannot wait for %d subscriptions: %w", n, ctx.Err())
		}
	}
}

// Close ends Run without waiting for it, or frees a publisher that never ran. It is idempotent.
func (p *Publisher) Close() error {
	p.stop()
	if !p.claim() {
		return nil
	}
	return p.release(p.pub, p.router)
}
