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

	"github.com/warmpath/warmpath/dataplane/secrets"
)

// Cluster is this process's part in a cluster.
type Cluster struct {
	cfg    Config
	holder holder      // of the token of a role
	server *natsServer // nil: the operator's NATS
	js     jetstream.JetStream
	bus
	views
	trouble
	signals
	own     ownRecords
	buckets atomic.Pointer[buckets] // nil: none yet

	beats, requests chan *nats.Msg      // as NATS delivers them; read by state
	pongs           chan time.Time      // from pulse to state
	opened          chan *bucketWatches // from writer to state; nil: the present one is over
	lostMarks       chan []Mark         // from state to writer: marks that a lost store had
	leaving         chan withdrawal     // from Withdraw to writer
	storing         storeQueue          // requests of holders of roles' tokens
	stores          sync.Once           // subscribes to them

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup
	closing sync.Once
}

// Queues between NATS's connection and the reader, in messages: a cluster of thousands fills
// them in seconds. Overflow is dropped and renews all leases.
const (
	beatQueue    = 16384
	requestQueue = 256
)

// Open starts or joins a cluster. It fails for unusable settings and for an embedded server that
// cannot start; it tries a NATS that is out of reach for ever. ctx bounds the start alone.
func Open(ctx context.Context, cfg Config) (*Cluster, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	cfg.setDefaults()
	c := &Cluster{
		cfg: cfg, own: ownRecords{instance: NewInstance(), list: map[key]*ownRecord{}}, signals: newSignals(),
		beats: make(chan *nats.Msg, beatQueue), requests: make(chan *nats.Msg, requestQueue), pongs: make(chan time.Time),
		opened: make(chan *bucketWatches), lostMarks: make(chan []Mark, 1), leaving: make(chan withdrawal),
		storing: newStoreQueue(),
	}
	c.prefix, c.log = cfg.Prefix, cfg.Log
	c.user = memberUser
	c.replies = c.subject(replySubject) + "." + memberUser + "." + c.own.instance
	var ofRole bool
	if c.holder, _, ofRole = parseToken(cfg.Token); ofRole {
		c.user = c.holder.user()
		c.replies = c.subject(replySubject) + "." + c.user
	}
	if c.holder.role == RoleRouter {
		c.own.instance = c.holder.name + "-" + c.own.instance
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.view.Store(&View{At: time.Now()})
	c.news = make(chan struct{})
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
	if _, err = c.nc.ChanSubscribe(c.subject(beatSubject)+".>", c.beats); err != nil {
		return fmt.Errorf("cannot listen to NATS: %w", err)
	}
	if _, err = c.nc.ChanSubscribe(c.subject(requestSubject)+"."+c.own.instance+".>", c.requests); err != nil {
		return fmt.Errorf("cannot listen to NATS: %w", err)
	}
	c.resync.raise()
	c.running.Go(newReader(c).run)
	c.running.Go(pulse{c}.run)
	c.running.Go(newWriter(c).run)
	if c.holder.role == "" {
		c.running.Go(newStore(c).run)
	}
	if c.server != nil {
		c.serveStore()
	}
	return nil
}

// Instance returns the random name of this process that its records carry.
func (c *Cluster) Instance() string { return c.own.instance }

// URL returns the address at which other processes join: the embedded server's, or the
// operator's. It holds no secret.
func (c *Cluster) URL() string {
	if c.server != nil {
		return c.server.now.Load().ClientURL()
	}
	list := make([]string, len(c.cfg.URLs))
	for i, u := range c.cfg.URLs {
		list[i] = secrets.MaskURL(u)
	}
	return strings.Join(list, ",")
}

// AnnounceNode publishes this node's record; call it again at each change. Numbers cost next to
// nothing, other changes a write, at most every 500 ms. The record holds until Withdraw or
// Close. Without an Instance it gets the process's.
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

// AnnounceRouter publishes this router's record, as AnnounceNode does a node's.
func (c *Cluster) AnnounceRouter(r Router) error {
	if err := checkRouter(&r); err != nil {
		return fmt.Errorf("cannot announce router %.64q: %w: %w", r.ID, ErrRecord, err)
	}
	if c.holder.role == "" {
		c.serveStore()
	}
	return c.announce(key{kindRouter, r.ID}, nil, &r)
}

func (c *Cluster) announce(k key, n *Node, r *Router) error {
	if !c.holder.writes(k) {
		return fmt.Errorf("cannot announce %s %s: %w: the token is that of %s %s", k.kind, k.name, ErrDenied, c.holder.role, c.holder.name)
	}
	dirty, err := c.own.set(k, n, r)
	if err != nil {
		return fmt.Errorf("cannot announce %s: %w", k.name, err)
	}
	if dirty {
		c.write.raise()
	}
	return nil
}

// beatSubjectOf is where a beat goes.
func (c *Cluster) beatSubjectOf(b *beat) string {
	return c.subject(beatSubject) + "." + b.key().beatPlace()
}

// Withdraw removes this process's records from all views at once, for a clean shutdown. Where
// NATS does not answer it takes some seconds; the leases then end by themselves.
func (c *Cluster) Withdraw() {
	taken := c.own.clear()
	if !c.hearing.Load() || len(taken) == 0 {
		return
	}
	for _, k := range taken {
		b := beat{Kind: k.kind, Name: k.name, Instance: c.own.instance, Bye: true}
		_ = c.nc.Publish(c.beatSubjectOf(&b), b.encode()) // the leases end without it
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
		c.closeWatches()
		if c.server != nil {
			c.server.stop()
		}
	})
	return nil
}

// WaitUp returns when the view is whole, or at the end of ctx with the reason why it is not.
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

// lostConnection notes that the connection is lost, or was not made.
func (c *Cluster) lostConnection(err error) {
	if errors.Is(err, nats.ErrAuthorization) {
		err = fmt.Errorf("%w: give the cluster's token (--cluster-token, WARMPATH_CLUSTER_TOKEN); only clusters on loopback of the user of this process need none", err)
	}
	if err != nil {
		c.noteFailure(err)
	}
	c.disconnected.raise()
}

// asyncError takes an error that NATS reports outside a call. Only lost beats touch the leases: a
// member that floods another subject would keep the dead in view.
func (c *Cluster) asyncError(of *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrSlowConsumer) {
		c.counts.dropped.Add(1)
		if of != nil && strings.HasPrefix(of.Subject, c.subject(beatSubject)) {
			c.overflowed.raise()
		}
		return
	}
	c.noteFailure(err)
}
