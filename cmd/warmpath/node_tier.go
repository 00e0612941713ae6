package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/dataplane/kvtier/store"
	"github.com/warmpath/warmpath/dataplane/machine"
	"github.com/warmpath/warmpath/dataplane/sidecar"
)

// tierOptions are the flags of a node's KV tier.
type tierOptions struct {
	size string
	cfg  sidecar.TierConfig
}

func (o *tierOptions) flags(f *pflag.FlagSet) {
	c := &o.cfg
	f.StringVar(&o.size, "kv-tier", "", "host memory for KV pages, such as 8GiB; engines with the package warmpath-sglang store and read pages there (default none)")
	f.StringVar(&c.Socket, "kv-tier-socket", "/run/warmpath/kv-tier.sock", "Unix socket of the KV tier, for this node's engines")
	f.StringVar(&c.SocketGroup, "kv-tier-socket-group", "", "group, by name or number, whose members may use the socket too: for engines of another user (default: this user alone)")
	f.StringVar(&c.Listen, "kv-tier-listen", "127.0.0.1:0",
		"address at which other nodes' tiers pull pages: an address of the network for KV transfers, with a key or certificates on all nodes; none is \"\"")
	f.StringVar(&c.KeyFile, "kv-tier-key-file", "", "file with a key by which all nodes' tiers authenticate each other and encrypt. At least 32 characters, "+
		"as of \"openssl rand -hex 32\"; of several lines the first is shown and all are accepted. Read again when it changes "+
		"(default: made of --cluster-token, where that is as long and the cluster's own)")
	f.StringVar(&c.TLS.Cert, "kv-tier-tls-cert", "", "instead of a key: certificate of this node's tier, as server and client, PEM; "+
		"valid for the host of --kv-tier-listen")
	f.StringVar(&c.TLS.Key, "kv-tier-tls-key", "", "key of --kv-tier-tls-cert, PEM")
	f.StringVar(&c.TLS.ClientCA, "kv-tier-tls-ca", "", "authorities of the certificates of other nodes' tiers, PEM")
	f.BoolVar(&c.Insecure, "kv-tier-insecure", false, "let --kv-tier-listen be an address that other machines reach, without a key or certificates")
	f.StringArrayVar(&c.Peers, "kv-tier-peer", nil, "`host:port` of another node's tier, besides those of the cluster; may be repeated")
	f.DurationVar(&c.AskTimeout, "kv-tier-ask", 100*time.Millisecond, "bound of an engine's question to other nodes' tiers")
	f.Float64Var(&c.PrefillRate, "kv-tier-prefill", store.DefaultPrefillRate,
		"prompt tokens a second that one engine here computes: slower links are not used when it asks; 0 uses all")
	f.BoolVar(&c.NoNIXL, "kv-tier-no-nixl", false, "move pages between nodes by TCP only")
}

// config returns the configuration of the tier. token is the cluster's, or "".
func (o *tierOptions) config(token string) (sidecar.TierConfig, error) {
	c := o.cfg
	if o.size == "" {
		return sidecar.TierConfig{}, nil
	}
	var err error
	if c.Bytes, err = parseBytes(o.size); err != nil {
		return c, fmt.Errorf("cannot use --kv-tier: %w", err)
	}
	if most := machine.ProcessMemory(); c.Bytes > most {
		return c, fmt.Errorf("cannot use --kv-tier: %w: %s, and the machine or this process's control group has %.1f GiB: the kernel would end the sidecar once the tier has filled",
			errSize, o.size, float64(most)/(1<<30))
	}
	c.Token = token
	return c, nil
}
