package sidecar

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/kvtier/announce"
	"github.com/warmpath/warmpath/dataplane/kvtier/hint"
	"github.com/warmpath/warmpath/dataplane/kvtier/store"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
	"github.com/warmpath/warmpath/nixl"
)

// TierConfig configures the KV tier of the node. With Bytes 0 there is none. The sidecar sets the
// fields Node, Advertise, Log, Fabric and PeerTLS of the store.
type TierConfig struct {
	store.Config

	Peers   []string              // host:port of other nodes' tiers, besides those of the cluster
	KeyFile string                // shared key of all nodes' tiers
	TLS     tlsconfig.ServerFiles // certificates instead of a key
	// Of the cluster: the key where there is neither, and it is long enough.
	Token  string
	NoNIXL bool // pages move between nodes by TCP only
}

// ErrPeerTLS is a contradiction in the settings by which KV tiers authenticate each other.
var ErrPeerTLS = errors.New("sidecar: bad TLS settings of the KV tier")

// tier is the KV tier of the node, with its peers and announcements.
type tier struct {
	store     *store.Store
	cfg       *TierConfig
	node      string
	bus       Bus // nil without a cluster
	log       *slog.Logger
	announcer *announce.Announcer // nil without a cluster
}

// newTier makes the KV tier and adds it to the sidecar's report; nil where there is none.
func newTier(cfg *Config) (*tier, error) {
	if cfg.Tier.Bytes == 0 {
		return nil, nil
	}
	c := cfg.Tier.Config
	c.Node, c.Advertise, c.Log = cfg.Name, cfg.Advertise, cfg.Log
	var err error
	if c.PeerTLS, err = cfg.Tier.peerTLS(cfg.Log); err != nil {
		return nil, err
	}
	if !cfg.Tier.NoNIXL {
		if library, err := nixl.Open(""); err == nil {
			c.Fabric = library
		} else {
			cfg.Log.Info("NIXL is not available: KV pages move between nodes by TCP", "reason", err)
		}
	}
	t := &tier{cfg: &cfg.Tier, node: cfg.Name, bus: cfg.Bus, log: cfg.Log}
	if t.store, err = store.New(c); err != nil {
		return nil, err
	}
	cfg.extra.tier, cfg.extra.handle = t.store.Record, t.store.Handle
	cfg.extra.metrics = append(cfg.extra.metrics, t.store.Collector())
	cfg.extra.agents = append(cfg.extra.agents, t.store.Agents)
	if t.bus != nil {
		t.announcer = announce.New(announce.Config{Node: t.node, Bus: t.bus, Source: t.store.ChangeFeed(), Log: t.log})
		cfg.extra.metrics = append(cfg.extra.metrics, t.announcer.Collector())
	}
	return t, nil
}

// peerTLS makes the TLS settings of connections with other nodes' tiers: from certificates, a key
// or the cluster's token.
func (c *TierConfig) peerTLS(log *slog.Logger) (none store.PeerTLS, err error) {
	certified := c.TLS != (tlsconfig.ServerFiles{})
	switch {
	case certified && c.KeyFile != "":
		return none, fmt.Errorf("%w: --kv-tier-key-file and --kv-tier-tls-cert: tiers authenticate each other by one of them", ErrPeerTLS)
	case certified:
		return c.certificates(log)
	}
	var shared *tlsconfig.SharedKey
	switch {
	case c.KeyFile != "":
		if shared, err = tlsconfig.NewSharedKey(c.KeyFile, log); err != nil {
			return none, fmt.Errorf("cannot use --kv-tier-key-file: %w", err)
		}
		log.Info("KV tiers authenticate each other by a shared key", "file", c.KeyFile)
	case len(c.Token) >= tlsconfig.MinKey:
		if shared, err = tlsconfig.SharedKeyOf(c.Token); err != nil {
			return none, fmt.Errorf("cannot use --cluster-token for the KV tier: %w", err)
		}
		log.Info("KV tiers authenticate each other by the cluster's token")
	default:
		return none, nil
	}
	return store.PeerTLS{Server: shared.Server(), Client: func(string) *tls.Config { return shared.Client() }}, nil
}

// certificates makes the TLS settings from certificates, which each tier shows to the other.
func (c *TierConfig) certificates(log *slog.Logger) (none store.PeerTLS, err error) {
	if c.TLS.Cert == "" || c.TLS.Key == "" || c.TLS.ClientCA == "" {
		return none, fmt.Errorf("%w: --kv-tier-tls-cert, --kv-tier-tls-key and --kv-tier-tls-ca go together, as each tier authenticates itself to the other", ErrPeerTLS)
	}
	server, err := tlsconfig.Server(c.TLS, log)
	if err != nil {
		return none, fmt.Errorf("cannot use --kv-tier-tls-cert: %w", err)
	}
	client, err := tlsconfig.NewClient(tlsconfig.ClientFiles{CA: c.TLS.ClientCA, Cert: c.TLS.Cert, Key: c.TLS.Key}, log)
	if err != nil {
		return none, fmt.Errorf("cannot use --kv-tier-tls-ca: %w", err)
	}
	log.Info("KV tiers authenticate each other by certificates", "ca", c.TLS.ClientCA)
	return store.PeerTLS{Server: server, Client: client.Config}, nil
}

// run serves the tier until ctx ends.
func (t *tier) run(ctx context.Context) error {
	named := make([]store.Peer, len(t.cfg.Peers))
	for i, endpoint := range t.cfg.Peers {
		named[i] = store.Peer{Name: endpoint, Endpoint: endpoint}
	}
	t.store.SetPeers(named)
	group, ctx := errgroup.WithContext(ctx)
	if t.bus != nil {
		// Views come from one goroutine, so the last one counts.
		defer t.bus.Watch(func(v *cluster.View) { t.store.SetPeers(tierPeers(named, v, t.store.Endpoint())) })()
		defer t.hearHints()()
		group.Go(func() error { t.announcer.Run(ctx); return nil })
	}
	group.Go(func() error { return t.store.Run(ctx) })
	err := group.Wait()
	if err != nil {
		t.log.Error("the KV tier ended", "error", err)
	}
	return err
}

// hearHints subscribes to the pull hints of routers. Without them pages are pulled when engines
// ask.
func (t *tier) hearHints() (stop func()) {
	stop, err := t.bus.Subscribe(hint.Subject(t.node), t.store.TakeHint)
	if err != nil {
		t.log.Warn("cannot hear routers' pull hints: pages are pulled when engines ask for them", "error", err)
		return func() {}
	}
	return stop
}

// tierPeers returns the named peers and the tiers of a cluster, except the own one.
func tierPeers(named []store.Peer, v *cluster.View, own string) []store.Peer {
	peers := append([]store.Peer(nil), named...)
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if n.Tier != nil && n.Tier.Endpoint != "" && n.Tier.Endpoint != own {
			peers = append(peers, store.Peer{Name: n.Name, Endpoint: n.Tier.Endpoint})
		}
	}
	return peers
}
