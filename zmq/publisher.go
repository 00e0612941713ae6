package zmq

import (
	"context"
	"fmt"
	"net"
	"sync"
)

const (
	// DefaultBufferSteps is the number of batches that a publisher stores for replay, as in
	// SGLang.
	DefaultBufferSteps = 10_000
	// DefaultHWM is the number of messages that a publisher queues for one subscriber before it
	// drops, as in SGLang.
	DefaultHWM = 100_000
	// maxClients bounds the connections of each socket, half-open ones included. A router has one
	// connection to each.
	maxClients = 4096
)

// PublisherConfig describes a publisher's sockets and their limits.
type PublisherConfig struct {
	Endpoint string // "tcp://host:port" or "ipc://path"; a port of "*" or 0 is picked.
	// ReplayEndpoint is where replays are requested; "" offers none.
	ReplayEndpoint string
	// ReplayWithoutTopic omits the topic frame of answers, as SGLang up to 0.5.15 does.
	ReplayWithoutTopic bool
	// IgnoreReplay, which may be nil, is a fault: a request that arrives while it returns true is
	// never answered. Several goroutines may call it.
	IgnoreReplay func() bool

	Topic       string
	BufferSteps int    // Batches stored for replay; 0 is DefaultBufferSteps.
	HWM         int    // Messages queued for a subscriber before they are dropped; 0 is DefaultHWM.
	FirstSeq    uint64 // A restarted engine begins at 0 again.
}

// Publisher sends the messages of an engine's publisher, frame for frame: a PUB socket and the
// ROUTER socket for replays beside it.
type Publisher struct {
	cfg                      PublisherConfig
	endpoint, replayEndpoint string
	stream                   *liveStream
	live, replays            net.Listener // replays is nil where none are offered.
	maxClients               int

	ctx    context.Context // Ends with Run or Close.
	cancel context.CancelFunc
	mu     sync.Mutex // guards running
	// running is true once Run has begun, or when Close has taken its place.
	running bool
}

// NewPublisher binds the sockets. They stay open until Run returns, or until Close if Run is
// never called.
func NewPublisher(cfg PublisherConfig) (*Publisher, error) {
	if cfg.HWM == 0 {
		cfg.HWM = DefaultHWM
	}
	if cfg.BufferSteps == 0 {
		cfg.BufferSteps = DefaultBufferSteps
	}
	p := &Publisher{cfg: cfg, maxClients: maxClients}
	p.stream = newLiveStream(&cfg)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if err := p.bind(); err != nil {
		p.closeListeners()
		return nil, fmt.Errorf("cannot create publisher: %w", err)
	}
	return p, nil
}

func (p *Publisher) bind() (err error) {
	p.live, p.endpoint, err = bindEndpoint(p.cfg.Endpoint)
	if err == nil && p.cfg.ReplayEndpoint != "" {
		p.replays, p.replayEndpoint, err = bindEndpoint(p.cfg.ReplayEndpoint)
	}
	return err
}

func (p *Publisher) closeListeners() {
	for _, l := range []net.Listener{p.live, p.replays} {
		if l != nil {
			_ = l.Close()
		}
	}
}

// Run serves subscribers and replays until ctx is done or Close is called; then it closes all
// connections, discards the messages still queued and returns nil. It runs once.
func (p *Publisher) Run(ctx context.Context) error {
	if !p.claim() {
		return fmt.Errorf("cannot run publisher: %w", ErrRunning)
	}
	stop := context.AfterFunc(ctx, p.cancel)
	defer stop()
	defer p.stream.close()
	var servers sync.WaitGroup
	if p.replays != nil {
		servers.Go(func() { accept(p.ctx, p.replays, p.maxClients, p.serveReplays) })
	}
	accept(p.ctx, p.live, p.maxClients, func(conn net.Conn) { _ = p.serveSubscriber(conn) })
	servers.Wait()
	return nil
}

// claim reports whether the caller is the first one to own the sockets.
func (p *Publisher) claim() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	claimed := !p.running
	p.running = true
	return claimed
}

// Close ends Run without waiting for it, or closes the sockets of a publisher that never ran.
// It is idempotent.
func (p *Publisher) Close() error {
	p.cancel()
	if p.claim() {
		p.closeListeners()
		p.stream.close()
	}
	return nil
}

// Endpoint returns the address of the live stream, with the port that was picked.
func (p *Publisher) Endpoint() string { return p.endpoint }

// ReplayEndpoint returns the address for replay requests, or "".
func (p *Publisher) ReplayEndpoint() string { return p.replayEndpoint }

// Publish copies payload, stores the copy for replay and queues it for each subscriber of the
// topic. It never waits: a subscriber whose queue is full loses the message, and Dropped counts
// it.
func (p *Publisher) Publish(payload []byte) (seq uint64) { return p.stream.publish(payload, true) }

// PublishDropped is a fault: the message takes a sequence number and can be replayed, but no
// subscriber receives it.
func (p *Publisher) PublishDropped(payload []byte) (seq uint64) {
	return p.stream.publish(payload, false)
}

// Skip is a fault: it uses up a sequence number that is neither sent nor replayed.
func (p *Publisher) Skip() (seq uint64) { return p.stream.skip() }

// Dropped returns how many messages full queues have lost, summed over all subscribers.
func (p *Publisher) Dropped() int {
	p.stream.mu.Lock()
	defer p.stream.mu.Unlock()
	return p.stream.dropped
}

// WaitSubscriptions returns when n subscriptions have arrived since the start, counting each
// topic of each connection: messages published afterwards reach them.
func (p *Publisher) WaitSubscriptions(ctx context.Context, n int) error {
	for {
		total, more := p.stream.subscriptionCount()
		if total >= n {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return fmt.Errorf("cannot wait for %d subscriptions: %w", n, ctx.Err())
		}
	}
}
