package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/dataplane/cluster"
	kvtier "github.com/warmpath/warmpath/dataplane/kvtier/store"
	"github.com/warmpath/warmpath/dataplane/sidecar"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
	"github.com/warmpath/warmpath/nixl"
	"github.com/warmpath/warmpath/radix/hugepage"
)

// tierOptions are the flags of a node's KV tier.
type tierOptions struct {
	size   string
	warm   string
	peers  []string
	noNIXL bool
	key    string // file
	server tlsconfig.ServerFiles
	cfg    kvtier.Config
}

func (o *tierOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.size, "kv-tier", "", "host memory for KV pages, as in 8GiB: engines with the package warmpath-sglang keep and find pages there (default none)")
	f.StringVar(&o.cfg.Socket, "kv-tier-socket", "/run/warmpath/kv-tier.sock", "Unix socket of the KV tier, for this node's engines")
	f.StringVar(&o.cfg.SocketGroup, "kv-tier-socket-group", "", "group, by name or number, whose members may use the socket too: for engines of another user (default: this user alone)")
	f.StringVar(&o.cfg.Listen, "kv-tier-listen", "127.0.0.1:0",
		"where other nodes' tiers ask for pages: give it an address of the network that KV transfers use, and all nodes a key or certificates; none is \"\"")
	f.StringVar(&o.key, "kv-tier-key-file", "", "file with a key that all nodes' tiers have, and know each other by; connections are encrypted with it. At least 32 characters, "+
		"as \"openssl rand -hex 32\" prints them; of several lines the first is shown and all are taken. Read again when it changes "+
		"(default: made of --cluster-token, where that is as long)")
	f.StringVar(&o.server.Cert, "kv-tier-tls-cert", "", "instead of a key: certificate that this node's tier shows to others, both ways, PEM; "+
		"good for the host of --kv-tier-listen")
	f.StringVar(&o.server.Key, "kv-tier-tls-key", "", "key of --kv-tier-tls-cert, PEM")
	f.StringVar(&o.server.ClientCA, "kv-tier-tls-ca", "", "authorities of the certificates of other nodes' tiers, PEM")
	f.BoolVar(&o.cfg.Insecure, "kv-tier-insecure", false, "let --kv-tier-listen be an address that other machines reach, without a key or certificates")
	f.StringArrayVar(&o.peers, "kv-tier-peer", nil, "`host:port` of another node's tier; may be repeated. A cluster's are found besides")
	f.StringVar(&o.cfg.Eviction, "kv-tier-eviction", "adaptive", "which pages go first: adaptive or lru")
	f.DurationVar(&o.cfg.AskTimeout, "kv-tier-ask", 100*time.Millisecond, "the longest that an engine's question waits for other nodes' tiers")
	f.StringVar(&o.warm, "kv-tier-warm", "256MiB", "bytes a second at which a cold tier fills up to half of itself with other nodes' most used pages; 0 is not at all")
	f.Float64Var(&o.cfg.PrefillRate, "kv-tier-prefill", kvtier.DefaultPrefillRate,
		"prompt tokens a second that one engine here computes: when it asks, pages that come slower from another node are not pulled; 0 pulls all")
	f.BoolVar(&o.noNIXL, "kv-tier-no-nixl", false, "move pages between nodes by TCP only")
}

// sizes are the units of parseBytes.
var sizes = []struct {
	unit  string
	bytes float64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}}

var errSize = errors.New("bad size")

// parseBytes reads a size as in 8GiB, 512MiB, 1.5TB or 1048576.
func parseBytes(text string) (int64, error) {
	number, factor := strings.TrimSpace(text), 1.0
	for _, s := range sizes {
		if before, found := strings.CutSuffix(number, s.unit); found {
			number, factor = strings.TrimSpace(before), s.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n > 0 && n*factor < 1<<50) {
		return 0, fmt.Errorf("%w %q: want a number with a unit, as in 8GiB or 512MiB", errSize, text)
	}
	return int64(n * factor), nil
}

var errTrust = errors.New("bad trust")

// trust makes what other nodes' tiers are known by: certificates, a key, or the cluster's token.
func (o *tierOptions) trust(token string, log *slog.Logger) error {
	certified := o.server != (tlsconfig.ServerFiles{})
	switch {
	case certified && o.key != "":
		return fmt.Errorf("%w: --kv-tier-key-file and --kv-tier-tls-cert: tiers know each other by one of them", errTrust)
	case certified:
		if o.server.Cert == "" || o.server.Key == "" || o.server.ClientCA == "" {
			return fmt.Errorf("%w: --kv-tier-tls-cert, --kv-tier-tls-key and --kv-tier-tls-ca go together, since each tier proves itself to the other", errTrust)
		}
		server, err := tlsconfig.Server(o.server, log)
		if err != nil {
			return fmt.Errorf("cannot use --kv-tier-tls-cert: %w", err)
		}
		client, err := tlsconfig.NewClient(tlsconfig.ClientFiles{CA: o.server.ClientCA, Cert: o.server.Cert, Key: o.server.Key}, log)
		if err != nil {
			return fmt.Errorf("cannot use --kv-tier-tls-ca: %w", err)
		}
		o.cfg.Trust = kvtier.Trust{Server: server, Client: client.Config}
		log.Info("other nodes' KV tiers are known by their certificates", "ca", o.server.ClientCA)
		return nil
	}
	var shared *tlsconfig.SharedKey
	var err error
	switch {
	case o.key != "":
		if shared, err = tlsconfig.NewSharedKey(o.key, log); err != nil {
			return fmt.Errorf("cannot use --kv-tier-key-file: %w", err)
		}
		log.Info("other nodes' KV tiers are known by a shared key", "file", o.key)
	case len(token) >= tlsconfig.MinKey:
		if shared, err = tlsconfig.SharedKeyOf(token); err != nil {
			return fmt.Errorf("cannot use --cluster-token for the KV tier: %w", err)
		}
		log.Info("other nodes' KV tiers are known by the cluster's token")
	default:
		return nil
	}
	o.cfg.Trust = kvtier.Trust{Server: shared.Server(), Client: func(string) *tls.Config { return shared.Client() }}
	return nil
}

// open makes the tier and adds it to the node; nil where none is asked for. Its run must follow. token is the cluster's, if it has one.
func (o *tierOptions) open(cfg *sidecar.Config, token string, log *slog.Logger) (*kvtier.Store, error) {
	if o.size == "" {
		return nil, nil
	}
	var err error
	if o.cfg.Bytes, err = parseBytes(o.size); err != nil {
		return nil, fmt.Errorf("cannot use --kv-tier: %w", err)
	}
	if most := hugepage.Room(); o.cfg.Bytes > most {
		return nil, fmt.Errorf("cannot use --kv-tier: %w: %s, and the machine or this process's control group has %.1f GiB: the kernel would end the sidecar once the tier has filled",
			errSize, o.size, float64(most)/(1<<30))
	}
	if o.warm != "0" {
		if o.cfg.WarmRate, err = parseBytes(o.warm); err != nil {
			return nil, fmt.Errorf("cannot use --kv-tier-warm: %w", err)
		}
	}
	if err = o.trust(token, log); err != nil {
		return nil, err
	}
	o.cfg.Node, o.cfg.Advertise, o.cfg.Log = cfg.Name, cfg.Advertise, log
	if !o.noNIXL {
		if library, err := nixl.Open(""); err == nil {
			o.cfg.Fabric = library
		} else {
			log.Info("no NIXL here: KV pages move between nodes by TCP", "reason", err)
		}
	}
	t, err := kvtier.New(o.cfg)
	if err != nil {
		return nil, err
	}
	cfg.Extra.Tier, cfg.Extra.Handle = t.Record, t.Handle
	cfg.Extra.Metrics = append(cfg.Extra.Metrics, t.Collector())
	cfg.Extra.NIXL = append(cfg.Extra.NIXL, t.Agents)
	return t, nil
}

// run serves the tier until ctx ends. shared may be nil.
func (o *tierOptions) run(ctx context.Context, t *kvtier.Store, shared *cluster.Cluster, log *slog.Logger) error {
	named := make([]kvtier.Peer, len(o.peers))
	for i, endpoint := range o.peers {
		named[i] = kvtier.Peer{Name: endpoint, Endpoint: endpoint}
	}
	t.SetPeers(named)
	if shared != nil {
		// Views come from one goroutine, so that the last one counts.
		defer shared.Watch(func(v *cluster.View) { t.SetPeers(tierPeers(named, v, t.Endpoint())) })()
	}
	err := errors.Join(t.Run(ctx), t.Close())
	if err != nil {
		log.Error("the KV tier ended", "error", err)
	}
	return err
}

// tierPeers are the tiers of a cluster besides the one at own.
func tierPeers(named []kvtier.Peer, v *cluster.View, own string) []kvtier.Peer {
	peers := append([]kvtier.Peer(nil), named...)
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if n.Tier != nil && n.Tier.Endpoint != "" && n.Tier.Endpoint != own {
			peers = append(peers, kvtier.Peer{Name: n.Name, Endpoint: n.Tier.Endpoint})
		}
	}
	return peers
}
