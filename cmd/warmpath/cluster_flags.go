package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/dataplane/cluster"
)

// defaultCluster is the NATS of a cluster on one machine: --cluster-listen there, and the default
// of `warmpath nodes` and its siblings.
const defaultCluster = "nats://127.0.0.1:4222"

// clusterOptions locate the cluster's NATS.
type clusterOptions struct {
	cfg    cluster.Config
	urls   []string
	listen string
}

// joinFlags are the flags of every command that talks to a cluster; def is the default URL.
func (o *clusterOptions) joinFlags(f *pflag.FlagSet, def string) {
	usage := "`URL` of the cluster's NATS, nats://host:4222 or tls://host:4222, with user:password@ or token@ before the host; may be repeated, with commas too"
	if def != "" {
		usage += " (default " + def + ")"
	}
	f.StringSliceVar(&o.urls, "cluster", nil, usage)
	secretFlag(f, &o.cfg.Token, "cluster-token", "secret of the cluster, or a token that warmpath token made of it; for a NATS on loopback the default is this user's, "+
		"in a file that a router's --cluster-listen makes")
	f.StringVar(&o.cfg.Credentials, "cluster-creds", "", "`FILE` with NATS credentials (JWT and key)")
	f.StringVar(&o.cfg.NKey, "cluster-nkey", "", "`FILE` with the seed of an NKey for NATS")
	f.StringVar(&o.cfg.TLS.CA, "cluster-ca", "", "`FILE` with the authorities of NATS's certificate, PEM (default: the system's)")
	f.StringVar(&o.cfg.TLS.Cert, "cluster-cert", "", "`FILE` with the client certificate for NATS, PEM")
	f.StringVar(&o.cfg.TLS.Key, "cluster-key", "", "`FILE` with the key of --cluster-cert, PEM")
	f.StringVar(&o.cfg.Prefix, "cluster-prefix", "", "prefix of buckets and subjects, where several clusters share a NATS (default warmpath)")
	f.IntVar(&o.cfg.Replicas, "cluster-replicas", 0, "copies of the state in a NATS cluster, 1 to 5 (default 1)")
}

// flags are the flags of commands that are members of a cluster and can run its NATS.
func (o *clusterOptions) flags(f *pflag.FlagSet) {
	o.joinFlags(f, "")
	f.Lookup("cluster-ca").Usage = "`FILE` with the authorities of NATS's certificate, PEM; with --cluster-listen, of clients that may join (default: the system's)"
	f.Lookup("cluster-cert").Usage += "; with --cluster-listen, the embedded server's own"
	f.StringVar(&o.listen, "cluster-listen", "",
		"run the cluster's NATS in this process, for others to join at `ADDRESS`, such as 127.0.0.1:4222; off loopback it needs --cluster-token or certificates")
	f.StringVar(&o.cfg.StoreDir, "cluster-store", "", "`DIR` in which the embedded NATS keeps marks and records (default: memory)")
}

// check refuses a NATS inside together with one outside.
func (o *clusterOptions) check() error {
	if o.listen != "" && len(o.urls) > 0 {
		return fmt.Errorf("cannot use --cluster-listen %s with --cluster %s: %w: the cluster's NATS is either in this process or elsewhere",
			o.listen, strings.Join(o.urls, ","), cluster.ErrConfig)
	}
	return nil
}

// open starts or joins the cluster; nil: none is asked for.
func (o *clusterOptions) open(ctx context.Context, name string, log *slog.Logger) (*cluster.Cluster, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.listen == "" && len(o.urls) == 0 {
		return nil, nil //nolint:nilnil // no cluster
	}
	cfg := o.cfg
	cfg.URLs, cfg.Listen, cfg.Log, cfg.Name = o.urls, o.listen, log, name
	if err := o.localToken(&cfg, log); err != nil {
		return nil, err
	}
	c, err := cluster.Open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("cannot join the cluster: %w", err)
	}
	return c, nil
}

// clusterPatience bounds the wait for NATS: a view is complete within 1.5 s.
const clusterPatience = 5 * time.Second

// ask opens the cluster for a command and waits until its view is complete.
func (o *clusterOptions) ask(cmd *cobra.Command, use func(ctx context.Context, c *cluster.Cluster) error) error {
	if len(o.urls) == 0 {
		o.urls = []string{defaultCluster}
	}
	c, err := o.open(cmd.Context(), "warmpath "+cmd.Name(), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), clusterPatience)
	defer cancel()
	if err := c.WaitUp(ctx); err != nil {
		return fmt.Errorf("%w; is NATS running there? Name it with --cluster. Without a cluster, warmpath workers asks a router", err)
	}
	return use(cmd.Context(), c)
}
