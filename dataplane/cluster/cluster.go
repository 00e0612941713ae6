package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Cluster is this process's part in a cluster.
type Cluster struct {
	cfg    Config
	server *embedded // nil: the operator's NATS
	js     jetstream.JetStream
	bus
	views
	trouble
	signals
	own     ownRecords
	buckets atomic.Pointer[buckets] // nil: none yet

	beats, wants chan *nats.Msg      // as NATS delivers them; read by state
	pongs        chan time.Time      // from pulse to state
	opened       chan *bucketWatches // from writer to state; nil: the present one is over
	lostMarks    chan []Mark         // from state to writer: marks that a lost store had
	leaving      chan withdrawal     // from Withdraw to writer

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup
	closing sync.Once
}

// Queues between NATS's reader and run, in messages: what a cluster of thousands says in seconds. What does not fit is dropped
// and begins all leases anew.
const (
	beatQueue = 16384
	wantQueue = 256
)

// Open starts or joins a cluster. It fails for settings that cannot be used and for an embedded server that cannot start; a NATS
// that is out of reach is tried for ever. ctx bounds the start alone.
func Open(ctx context.Context, cfg Config) (*Cluster, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	cfg.setDefaults()
	c := &Cluster{
		cfg: cfg, own: ownRecords{instance: NewInstance(), list: map[key]*ownRecord{}}, signals: newSignals(),
		beats: make(chan *nats.Msg, beatQueue), wants: make(chan *nats.Msg, wantQueue), pongs: make(chan time.Time),
		opened: make(chan *bucketWatches), lostMarks: make(chan []Mark, 1), leaving: make(chan withdrawal),
	}
	c.prefix, c.log = cfg.Prefix, cfg.Log
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.view.Store(&View{At: time.Now()})
	if err := c.start(ctx); err != nil {
		c.cancel()
		if c.nc != nil {
			c.nc.Close()
		}
		if c.server != nil {
			c.server.stop()
		}
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) (err error) {
	if len(c.cfg.URLs) == 0 {
		if c.server, err = embed(ctx, &c.cfg); err != nil {
			return err
		}
	}
	c.url = c.URL()
	if c.nc, err = connect(c); err != nil {
		return err
	}
	if c.js, err = jetstream.New(c.nc, jetstream.WithDefaultTimeout(askTimeout)); err != nil {
		return fmt.Errorf("cannot use JetStream: %w", err)
	}
	if _, err = c.nc.ChanSubscribe(c.subject(beatSubject), c.beats); err != nil {
		return fmt.Errorf("cannot listen to NATS: %w", err)
	}
	if _, err = c.nc.ChanSubscribe(c.subject(wantSubject)+"."+c.own.instance+".>", c.wants); err != nil {
		return fmt.Errorf("cannot listen to NATS: %w", err)
	}
	c.resync.raise()
	c.running.Go(newReader(c).run)
	c.running.Go(pulse{c}.run)
	c.running.Go(newWriter(c).run)
	return nil
}

// Instance returns the random name of this process that its records carry.
func (c *Cluster) Instance() string { return c.own.instance }

// URL returns where other processes join: the embedded server's, or the operator's. It holds no secret.
func (c *Cluster) URL() string {
	if c.server != nil {
		return c.server.ClientURL()
	}
	list := make([]string, len(c.cfg.URLs))
	for i, u := range c.cfg.URLs {
		list[i] = redact(u)
	}
	return strings.Join(list, ",")
}

// AnnounceNode tells the cluster of this node, again whenever something changed: numbers cost next to nothing, the rest a write,
// at most every 500 ms. The record holds until Withdraw or Close. Without an Instance it gets the process's.
func (c *Cluster) AnnounceNode(n Node) error {
	fresh := n.clone()
	if fresh.Instance == "" {
		fresh.Instance = c.own.instance
	}
	slices.SortFunc(fresh.Workers, func(a, b Worker) int { return strings.Compare(a.URL, b.URL) })
	if err := checkNode(fresh); err != nil {
		return fmt.Errorf("cannot announce node %.64q: %w: %w", n.Name, ErrRecord, err)
	}
	return c.announce(key{kindNode, n.Name}, fresh, nil)
}

// AnnounceReplica tells the cluster of this router, as AnnounceNode does of a node.
func (c *Cluster) AnnounceReplica(r Replica) error {
	if err := checkReplica(&r); err != nil {
		return fmt.Errorf("cannot announce router %.64q: %w: %w", r.ID, ErrRecord, err)
	}
	return c.announce(key{kindReplica, r.ID}, nil, &r)
}

func (c *Cluster) announce(k key, n *Node, r *Replica) error {
	dirty, err := c.own.set(k, n, r)
	if err != nil {
		return fmt.Errorf("cannot announce %s: %w", k.name, err)
	}
	if dirty {
		c.wake.raise()
	}
	return nil
}

// Withdraw takes our records out of all views at once, for a clean shutdown. It takes up to some seconds where NATS does not
// answer; then the leases end by themselves.
func (c *Cluster) Withdraw() {
	taken := c.own.take()
	if !c.hearing.Load() || len(taken) == 0 {
		return
	}
	for _, k := range taken {
		b := beat{Kind: k.kind, Name: k.name, Instance: c.own.instance, Bye: true}
		_ = c.nc.Publish(c.subject(beatSubject), b.encode()) // the leases end without it
	}
	ctx, cancel := context.WithTimeout(c.ctx, askTimeout)
	defer cancel()
	l := withdrawal{ctx, taken, make(chan struct{})}
	select {
	case c.leaving <- l:
		<-l.done
	case <-ctx.Done():
	}
	_ = c.nc.FlushWithContext(ctx)
}

// Close withdraws, ends everything and, where it is embedded, the server. It may be called again.
func (c *Cluster) Close() error {
	c.closing.Do(func() {
		c.Withdraw()
		c.cancel()
		c.nc.Close()
		c.running.Wait()
		c.views.close()
		if c.server != nil {
			c.server.stop()
		}
	})
	return nil
}

// WaitUp returns when the view is whole, or an error that says why it is not when ctx ends.
func (c *Cluster) WaitUp(ctx context.Context) error {
	up := newSignal()
	defer c.Watch(func(v *View) {
		if v.Up {
			up.raise()
		}
	})()
	select {
	case <-up:
		return nil
	case <-c.ctx.Done():
		return fmt.Errorf("%w: closed", ErrDown)
	case <-ctx.Done():
		return fmt.Errorf("%w at %s: %s", ErrDown, c.URL(), c.Status().Reason)
	}
}

// cut notes that the connection is lost, or was not made.
func (c *Cluster) cut(err error) {
	if err != nil {
		c.noteFailure(err)
	}
	c.gone.raise()
}

// fault notes an error that NATS tells beside the calls.
func (c *Cluster) fault(err error) {
	if errors.Is(err, nats.ErrSlowConsumer) {
		c.counts.dropped.Add(1)
		c.deaf.raise()
		return
	}
	c.noteFailure(err)
}
