package sidecar

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/kvtier/announce"
	"github.com/warmpath/warmpath/dataplane/sidecar/health"
	"github.com/warmpath/warmpath/nixl"
	"github.com/warmpath/warmpath/nvml"
)

// Cluster takes the node's record; [cluster.Cluster] is one. One goroutine writes to it.
type Cluster interface {
	// AnnounceNode replaces the record and keeps renewing it. It does not wait for the cluster.
	AnnounceNode(n cluster.Node) error
	// Withdraw removes the record.
	Withdraw()
	// View returns the present view of the cluster, never nil.
	View() *cluster.View
}

// Bus carries messages between the members of a cluster; [cluster.Cluster] is one.
type Bus interface {
	announce.Bus
	// Request returns the first answer to a message.
	Request(ctx context.Context, subject string, data []byte) ([]byte, error)
	// Reply answers requests on a subject with the result of f, one after the other.
	Reply(subject string, f func(data []byte) []byte) (stop func(), err error)
	// Watch calls f with the present view and each new one, from one goroutine.
	Watch(f func(*cluster.View)) (stop func())
}

// Config configures a Sidecar; zero fields take the defaults.
type Config struct {
	Name    string // of the node in the cluster; default the host's name
	Version string
	Listen  string // of the HTTP API; default 127.0.0.1:9400
	// Host or address under which routers reach workers that listen on all addresses; default
	// loopback.
	Advertise string
	// Key is the bearer token of operators for /debug/pprof/; "": none is asked for on loopback,
	// and nobody gets it elsewhere.
	Key string
	// Hosts are names under which the HTTP API is reached on loopback; see origin.Guard.
	Hosts   []string
	Cluster Cluster // nil: there is none
	Bus     Bus     // of Cluster, or nil

	Tier        TierConfig
	Links       LinkConfig
	NIXLLibrary string // libnixl_capi.so; default: NIXL's own search

	Workers     []string // URLs from the operator
	NoDiscovery bool     // use those only
	Ports       Ports    // of possible workers; default 1024 to 65535
	Users       Users    // of possible workers, besides this process's own
	// Interval of scans of the listening sockets; default 5 s: the kernel walks its table of
	// connections for each.
	DiscoverEvery time.Duration
	Proc          string // default /proc

	NVML   nvml.Config
	Health health.Config

	Probing ProbeConfig
	Log     *slog.Logger

	extra extra // of the sidecar's own parts
}

// ProbeConfig configures the connections to workers.
type ProbeConfig struct {
	// Interval of GET /ready; default 2 s: routers probe four times a second themselves.
	Every time.Duration
	TLS   func(host string) *tls.Config // of https; default as in package worker
	Dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	Keys  *worker.Keys // of workers' APIs; nil: there are none
}

// extra is the contribution of the KV tier and the link prober to record, report and metrics. Each
// function is called about once a second.
type extra struct {
	tier    func() *cluster.Tier           // nil: there is no KV tier
	links   func() []cluster.Link          // nil: links are not measured
	metrics []prometheus.Collector         // besides the sidecar's own
	agents  []func() map[string]nixl.Stats // of NIXL, by name; names are unique
	// handle answers requests to other paths than the sidecar's, and reports whether it did; nil:
	// none.
	handle func(ctx *fasthttp.RequestCtx) bool
}

// ErrPorts is a list of ports that cannot be read.
var ErrPorts = errors.New("sidecar: bad list of ports")

// Ports is a set of ports as closed intervals.
type Ports [][2]uint16

// defaultPorts excludes the ports of system services: SGLang's default is 30000.
var defaultPorts = Ports{{1024, 65535}}

// ParsePorts reads "30000-30007,8000".
func ParsePorts(text string) (Ports, error) {
	var all Ports
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		low, err := strconv.ParseUint(first, 10, 16)
		high, err2 := strconv.ParseUint(last, 10, 16)
		if err != nil || err2 != nil || low == 0 || low > high {
			return nil, fmt.Errorf("%w: %q: want ports from 1 to 65535 and ranges of them, as in 30000-30007,8000", ErrPorts, text)
		}
		all = append(all, [2]uint16{uint16(low), uint16(high)})
	}
	return all, nil
}

func (p Ports) has(port uint16) bool {
	for _, r := range p {
		if port >= r[0] && port <= r[1] {
			return true
		}
	}
	return false
}

// String returns the form that ParsePorts reads.
func (p Ports) String() string {
	parts := make([]string, len(p))
	for i, r := range p {
		parts[i] = strconv.Itoa(int(r[0]))
		if r[1] != r[0] {
			parts[i] += "-" + strconv.Itoa(int(r[1]))
		}
	}
	return strings.Join(parts, ",")
}

func (c *Config) setDefaults() error {
	if c.Name == "" {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("cannot name the node: %w: give it a name", err)
		}
		c.Name = name
	}
	c.Version = cmp.Or(c.Version, "dev")
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:9400") // dcgm-exporter's port
	c.Advertise = strings.Trim(cmp.Or(c.Advertise, "127.0.0.1"), "[]")
	c.DiscoverEvery = cmp.Or(c.DiscoverEvery, 5*time.Second)
	c.Probing.Every = cmp.Or(c.Probing.Every, 2*time.Second)
	c.Proc = cmp.Or(c.Proc, "/proc")
	if len(c.Ports) == 0 {
		c.Ports = defaultPorts
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return nil
}
