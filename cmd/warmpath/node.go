package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/sidecar"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
	"github.com/warmpath/warmpath/nvml"
)

// nodeOptions are the flags of warmpath node that are not fields of sidecar.Config.
type nodeOptions struct {
	level     string
	ports     string
	users     []string
	cluster   clusterOptions
	tier      tierOptions
	links     linkOptions
	route     bool
	router    router.Config
	workerTLS tlsconfig.ClientFiles
	files     []func() // each reads a changed file again
}

func newNodeCommand() *cobra.Command {
	cfg := sidecar.Config{}
	opt := nodeOptions{}
	c := &cobra.Command{
		Use:   "node",
		Short: "Run the sidecar of one GPU node: its workers, its GPUs, their health",
		Long: `Node finds the SGLang workers of this machine and reads its GPUs from NVIDIA's driver.
It serves /metrics (with dcgm-exporter's names), /status, /health and /ready on --listen, and to
operators /debug/pprof/.

Node discovers workers: it asks each new listening socket of its own user once for
GET /server_info, and with --find-user those of other users: any user of the machine could answer
as an engine does. Name workers with --worker where that is unwanted (--no-find) or impossible.
To know the GPUs of a worker, node must see its processes: run it as root or as the same user,
and in a container with the host's network and PIDs.

With --cluster it reports its workers and the health of their GPUs to the cluster's routers.
With --route it is a router itself, also without a cluster.

Without a driver it runs as well, and without GPUs. ` + nvml.EnvLibrary + ` names another driver library.`,
		Example: `  warmpath node
  warmpath node --cluster nats://nats1:4222
  warmpath node --route --route-listen 127.0.0.1:8000
  warmpath node --kv-tier 64GiB --kv-tier-listen 10.0.0.5:7420 --kv-tier-key-file /etc/warmpath/kv-tier.key
  warmpath node --find-user sglang
  warmpath node --worker http://127.0.0.1:30000 --no-find
  curl -s 127.0.0.1:9400/status | jq .workers`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := configure(cmd.Flags(), os.Environ()); err != nil {
				return err
			}
			log, _, err := newLogger(opt.level, opt.router.Logs.Format)
			if err != nil {
				return err
			}
			return logEnd(log, opt.router.Logs.Format, runNode(cmd, &cfg, &opt, log))
		},
	}
	configFlags(c.Flags(), "read once, at the start")
	nodeFlags(c.Flags(), &cfg, &opt)
	workerTLSFlags(c.Flags(), &opt.workerTLS)
	workerKeyFlag(c.Flags(), &opt.router.Sources.KeyFile)
	return c
}

// runNode runs the sidecar until the command's context ends.
func runNode(cmd *cobra.Command, cfg *sidecar.Config, opt *nodeOptions, log *slog.Logger) error {
	signals := catchSignals(syscall.SIGHUP, upgradeSignal)
	if err := opt.apply(cfg, log); err != nil {
		return err
	}
	shared, err := opt.cluster.open(cmd.Context(), "warmpath node", log)
	if err != nil {
		return err
	}
	joined := "none"
	if shared != nil {
		defer shared.Close()
		cfg.Cluster, cfg.Bus, joined = shared, shared, shared.URL()
	}
	opt.setMemoryLimit(cfg.Tier.Bytes)
	node, err := sidecar.New(*cfg)
	if err != nil {
		return err
	}
	var route *router.Router
	if opt.route {
		opt.router.Cluster.Conn, opt.router.Node, opt.router.Log, opt.router.Version, opt.router.WorkerTLS = shared, node.Source(), log, thisBuild().version, opt.workerTLS
		if route, err = router.New(opt.router); err != nil {
			node.Close()
			return err
		}
		log.Info("warmpath node routes too", "listen", route.Addr(), "operator", route.OperatorAddr())
	}
	defer signals.obey(func(sig os.Signal) {
		if sig == upgradeSignal {
			log.Warn("no upgrade: the sidecar's tier and connections end with its process; restart it")
			return
		}
		for _, reload := range opt.files {
			reload()
		}
		if route != nil {
			route.ReloadFiles()
		}
		if key, err := readAgain(cmd.Flags(), "operator-key"); err != nil {
			log.Warn("cannot read --operator-key; the earlier key stays in use", "error", err)
		} else if key != "" {
			node.SetKey(key)
			if route != nil {
				route.SetKey(key)
			}
		}
		log.Info("certificates and keys that have changed were read again on SIGHUP; other settings need a restart")
	})()
	log.Info("warmpath node runs", "listen", node.Addr(), "advertise", node.Report().Advertise, "find", !cfg.NoDiscovery, "cluster", joined)
	return runBoth(cmd.Context(), node, route)
}

// runBoth runs the sidecar and, with --route, a router. The end of one ends the other.
func runBoth(ctx context.Context, n *sidecar.Sidecar, route *router.Router) error {
	if route == nil {
		return n.Run(ctx)
	}
	group, ctx := errgroup.WithContext(ctx)
	nodeCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() error {
		defer stop() // requests in flight still need the health of the GPUs
		return route.Run(ctx)
	})
	group.Go(func() error { return n.Run(nodeCtx) })
	return group.Wait()
}

// advertised returns the host under which routers reach this machine, unless the operator sets
// it: that of the route to NATS. Without a cluster none is needed.
func advertised(o *clusterOptions) string {
	if o.listen != "" {
		host, _, err := net.SplitHostPort(o.listen)
		if ip := net.ParseIP(host); err == nil && host != "" && (ip == nil || !ip.IsUnspecified()) {
			return host
		}
		return sidecar.AdvertiseTo(elsewhere)
	}
	if len(o.urls) == 0 {
		return ""
	}
	u, err := url.Parse(o.urls[0])
	if err != nil {
		return ""
	}
	return sidecar.AdvertiseTo(net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "4222")))
}

// elsewhere is an address that no machine has (RFC 5737): its route is the route to other machines.
const elsewhere = "192.0.2.1:4222"

func nodeFlags(f *pflag.FlagSet, cfg *sidecar.Config, opt *nodeOptions) {
	f.StringVar(&cfg.Listen, "listen", "127.0.0.1:9400", "address of /metrics, /status, /health, /ready and /debug/pprof/")
	f.StringVar(&cfg.Name, "name", "", "name of this node in the cluster (default: the host's name)")
	f.StringVar(&cfg.Advertise, "advertise", "", "host or address under which routers reach this machine's workers (default: that of the route to NATS)")
	f.StringArrayVar(&cfg.Workers, "worker", nil, "`URL` of a worker of this machine, besides discovered ones; may be repeated")
	f.BoolVar(&cfg.NoDiscovery, "no-find", false, "do not search for workers: use those of --worker only")
	opt.tier.flags(f)
	opt.links.flags(f)
	f.StringVar(&opt.ports, "find-ports", "", "ports of possible workers, such as 30000-30007,8000 (default 1024-65535)")
	f.StringSliceVar(&opt.users, "find-user", nil,
		"`USER`, by name or number, whose listening sockets may be workers, besides this process's own; any: all users; may be repeated")
	f.DurationVar(&cfg.Health.Fall, "health-hold", 0, "time without a fault after which a GPU is healthy again (default 30s)")
	f.BoolVar(&opt.route, "route", false, "also run a router in this process, for this machine's workers and, with --cluster, for all; takes the flags of serve")
	opt.cluster.flags(f)
	routerOfNode(f, &opt.router)
	logFlags(f, &opt.level, &opt.router.Logs.Format, "info")
}

// alsoOfNode has the use of a router's flags at the sidecar itself.
var alsoOfNode = map[string]string{
	"operator-key":  "bearer token of /debug/pprof/ at --listen, needed off loopback; ",
	"operator-host": "`NAME` or NAME:PORT under which a proxy reaches --listen on loopback; ",
}

// routerOfNode adds the flags of a router, except that --listen is --route-listen.
func routerOfNode(f *pflag.FlagSet, cfg *router.Config) {
	all := pflag.NewFlagSet("router", pflag.ContinueOnError)
	routerFlags(all, cfg)
	all.VisitAll(func(flag *pflag.Flag) {
		if flag.Name == "listen" {
			flag.Name = "route-listen"
		}
		flag.Usage = alsoOfNode[flag.Name] + "with --route: " + flag.Usage
		f.AddFlag(flag)
	})
}

// setMemoryLimit sets the collector for the sidecar, its KV tier and, with --route, its router.
func (o *nodeOptions) setMemoryLimit(tier int64) {
	bound := tier / tierIndexShare
	if o.route {
		bound += o.router.Memory.Bound()
	}
	setMemoryLimit(bound, tier)
}

// apply turns the options into cfg.
func (o *nodeOptions) apply(cfg *sidecar.Config, log *slog.Logger) (err error) {
	cfg.Log, cfg.Version = log, thisBuild().version
	cfg.NVML.Library = os.Getenv(nvml.EnvLibrary)
	cfg.Advertise = cmp.Or(cfg.Advertise, advertised(&o.cluster))
	cfg.NIXLLibrary, cfg.Key, cfg.Hosts = o.links.library, o.router.Operator.Key, o.router.Operator.Hosts
	tierToken := o.cluster.cfg.Token
	if _, name, ok := o.cluster.holder(); ok {
		if err := o.cluster.allow("node", cluster.RoleNode); err != nil {
			return err
		}
		if cfg.Name = cmp.Or(cfg.Name, name); cfg.Name != name || o.route {
			return fmt.Errorf("cannot run node %s with the token of node %s: %w: it allows neither another --name nor --route", cfg.Name, name, cluster.ErrDenied)
		}
		tierToken = "" // each node has another one
	}
	if o.ports != "" {
		if cfg.Ports, err = sidecar.ParsePorts(o.ports); err != nil {
			return fmt.Errorf("cannot use --find-ports: %w", err)
		}
	}
	if cfg.Users, err = sidecar.ParseUsers(o.users); err != nil {
		return fmt.Errorf("cannot use --find-user: %w", err)
	}
	if cfg.Links, err = o.links.config(); err != nil {
		return err
	}
	if cfg.Tier, err = o.tier.config(tierToken); err != nil {
		return err
	}
	client, err := tlsconfig.NewClient(o.workerTLS, log)
	if err != nil {
		return err
	}
	cfg.Probing.TLS = client.Config
	if o.router.Sources.KeyFile != "" {
		cfg.Probing.Keys, err = worker.ReadKeys(o.router.Sources.KeyFile, log)
	}
	o.files = []func(){client.Reload, cfg.Probing.Keys.Reload}
	return err
}
