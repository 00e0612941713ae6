package main

import (
	"context"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/sidecar"
	"github.com/warmpath/warmpath/dataplane/sidecar/link"
	"github.com/warmpath/warmpath/nixl"
)

// linkOptions are the flags of a node's NIXL and of the measurement of links.
type linkOptions struct {
	library string
	every   time.Duration
	largest string
}

func (o *linkOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.library, "nixl-lib", "", "libnixl_capi.so (default: "+nixl.EnvLibrary+", an installed wheel, the system's)")
	f.DurationVar(&o.every, "link-every", 10*time.Minute, "between two measurements of the link to another node of the cluster; 0 is never")
	f.StringVar(&o.largest, "link-bytes", "64MiB", "of the largest transfer that measures a link; one link takes about four of them, one link at a time")
}

// open makes what measures links and adds it to the node; nil where there is no cluster, or none is wanted. Its Run must follow. It comes before anything that
// uses NIXL, which reads its environment once.
func (o *linkOptions) open(cfg *sidecar.Config, shared *cluster.Cluster, log *slog.Logger) (*link.Prober, error) {
	if o.library != "" {
		if err := os.Setenv(nixl.EnvLibrary, o.library); err != nil {
			return nil, err
		}
	}
	if ip := net.ParseIP(cfg.Advertise); cfg.Advertise == "" || ip != nil && ip.IsLoopback() {
		if _, err := nixl.StayOnLoopback(); err != nil {
			return nil, err
		}
	} else if devices := netDevices(cfg.Advertise); devices != "" && os.Getenv(envNetDevices) == "" {
		if err := os.Setenv(envNetDevices, devices); err != nil {
			return nil, err
		}
		log.Info("NIXL is kept on the cluster's interface and the RDMA devices", envNetDevices, devices)
	}
	if shared == nil || o.every <= 0 {
		return nil, nil
	}
	largest, err := parseBytes(o.largest)
	if err != nil {
		return nil, err
	}
	name := cfg.Name
	if name == "" {
		if name, err = os.Hostname(); err != nil {
			return nil, err
		}
	}
	measure := link.Config{
		Node: name, Bus: shared, Every: o.every, Largest: int(min(largest, 64<<20)), Log: log,
		Peers: func() []string { return nodeNames(shared.View()) },
	}
	if library, err := nixl.Open(""); err == nil {
		measure.Fabric = library
		if os.Getenv(envNetDevices) == "" {
			log.Warn("UCX_NET_DEVICES is unset, so that NIXL listens on every interface; name the devices that KV transfers shall use")
		}
	} else {
		log.Info("no NIXL here: links to other nodes are not measured", "reason", err)
	}
	p, err := link.New(measure)
	if err != nil {
		return nil, err
	}
	cfg.Extra.Links = p.Links
	cfg.Extra.NIXL = append(cfg.Extra.NIXL, p.Agents)
	return p, nil
}

// envNetDevices is UCX's list of the devices that it may use. Without it UCX listens on every interface, for whoever reaches it.
const envNetDevices = "UCX_NET_DEVICES"

// netDevices are the RDMA devices that are up, and the interface with the given address of this machine; "" where no interface has it.
func netDevices(address string) string {
	interfaces, err := net.Interfaces()
	if err != nil {
		return ""
	}
	for i := range interfaces {
		addresses, _ := interfaces[i].Addrs() // an interface may go at any moment
		for _, a := range addresses {
			if n, ok := a.(*net.IPNet); ok && n.IP.Equal(net.ParseIP(address)) {
				var names []string
				facts := link.Gather("/", "")
				for _, d := range facts.Devices {
					names = append(names, d.Name)
				}
				return strings.Join(append(names, interfaces[i].Name), ",")
			}
		}
	}
	return ""
}

// nodeNames are the nodes of a cluster.
func nodeNames(v *cluster.View) []string {
	var names []string
	for i := range v.Nodes {
		names = append(names, v.Nodes[i].Name)
	}
	return names
}

// runLinks measures until ctx ends; its failure is not the node's.
func runLinks(ctx context.Context, p *link.Prober, log *slog.Logger) error {
	if err := p.Run(ctx); err != nil {
		log.Error("links are not measured", "error", err)
	}
	return nil
}
