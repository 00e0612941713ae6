package sidecar

import (
	"context"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/sidecar/link"
	"github.com/warmpath/warmpath/nixl"
)

// LinkConfig configures the measurement of links to the other nodes of the cluster.
type LinkConfig struct {
	Every   time.Duration // interval of measurements of one link; 0 measures none
	Largest int           // bytes of the largest transfer
}

// measuresLinks reports whether there are links to measure.
func (c *Config) measuresLinks() bool { return c.Bus != nil && c.Links.Every > 0 }

// links measures links for the sidecar.
type links struct {
	prober *link.Prober
	log    *slog.Logger
}

// newLinks makes the prober and adds it to the sidecar's report; nil where links are not measured.
func newLinks(cfg *Config) (*links, error) {
	if !cfg.measuresLinks() {
		return nil, nil
	}
	measure := link.Config{
		Node: cfg.Name, Bus: cfg.Bus, Every: cfg.Links.Every, Largest: cfg.Links.Largest, Log: cfg.Log,
		Peers: func() []string { return nodeNames(cfg.Cluster.View()) },
	}
	if library, err := nixl.Open(""); err == nil {
		measure.Fabric = library
	} else {
		cfg.Log.Info("NIXL is not available: links to other nodes are not measured", "reason", err)
	}
	p, err := link.New(measure)
	if err != nil {
		return nil, err
	}
	cfg.extra.links = p.Links
	cfg.extra.agents = append(cfg.extra.agents, p.Agents)
	return &links{p, cfg.Log}, nil
}

// run measures until ctx ends. A failure leaves the other parts running.
func (l *links) run(ctx context.Context) error {
	if err := l.prober.Run(ctx); err != nil {
		l.log.Error("links are not measured", "error", err)
		<-ctx.Done()
	}
	return nil
}

// nodeNames returns the names of a cluster's nodes.
func nodeNames(v *cluster.View) []string {
	var names []string
	for i := range v.Nodes {
		names = append(names, v.Nodes[i].Name)
	}
	return names
}

// envNetDevices is UCX's list of devices. Without it UCX listens on every interface, for any
// client.
const envNetDevices = "UCX_NET_DEVICES"

// prepareNIXL sets the environment that NIXL reads once: its library, and the devices that it may
// use.
func prepareNIXL(cfg *Config) error {
	if cfg.NIXLLibrary != "" {
		if err := os.Setenv(nixl.EnvLibrary, cfg.NIXLLibrary); err != nil {
			return err
		}
	}
	if ip := net.ParseIP(cfg.Advertise); ip != nil && ip.IsLoopback() {
		_, err := nixl.StayOnLoopback()
		return err
	}
	if devices := netDevices(cfg.Advertise); devices != "" && os.Getenv(envNetDevices) == "" {
		if err := os.Setenv(envNetDevices, devices); err != nil {
			return err
		}
		cfg.Log.Info("NIXL uses the cluster's interface and the RDMA devices", envNetDevices, devices)
	}
	if _, err := nixl.Open(""); err == nil && os.Getenv(envNetDevices) == "" {
		cfg.Log.Warn("UCX_NET_DEVICES is unset, so NIXL listens on every interface; name the devices for KV transfers")
	}
	return nil
}

// netDevices returns the active RDMA devices and the interface with an address of this machine, or
// one of a name's, in UCX's form; "" where no interface has it.
func netDevices(address string) string {
	interfaces, err := net.Interfaces()
	if err != nil {
		return ""
	}
	wanted, _ := net.LookupIP(address) // none is no interface's
	for i := range interfaces {
		addresses, _ := interfaces[i].Addrs() // an interface may go at any moment
		for _, a := range addresses {
			if n, ok := a.(*net.IPNet); ok && slices.ContainsFunc(wanted, n.IP.Equal) {
				var names []string
				facts := link.ReadFacts("/", "")
				for _, d := range facts.Devices {
					names = append(names, d.Name)
				}
				return strings.Join(append(names, interfaces[i].Name), ",")
			}
		}
	}
	return ""
}
