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
	"github.com/warmpath/warmpath/dataplane/sidecar/health"
	"github.com/warmpath/warmpath/nixl"
	"github.com/warmpath/warmpath/nvml"
)

// Cluster is where the node tells of itself; [cluster.Cluster] is one. One goroutine calls it.
type Cluster interface {
	// AnnounceNode replaces the node's record and keeps renewing it.
	AnnounceNode(n cluster.Node) error
	// Withdraw takes it back.
	Withdraw()
	// View is the cluster as it is known now, never nil.
	View() *cluster.View
}

// AgentsFunc returns what NIXL agents have done, by what they are for.
type AgentsFunc func() map[string]nixl.Stats

// Extra is what other parts of the sidecar add to its record, report and metrics. Each function is called about once a second.
type Extra struct {
	Tier    func() *cluster.Tier   // nil: the node keeps no KV tier
	Links   func() []cluster.Link  // nil: none are measured
	Metrics []prometheus.Collector // served beside the node's own
	NIXL    []AgentsFunc           // what NIXL agents have done, by what they are for; two agents never have one name
	// Handle answers requests to paths that the node does not have, of any method, and says whether it did; nil: there are none.
	Handle func(ctx *fasthttp.RequestCtx) bool
}

// Config says what a node is and where it looks; zero fields take the defaults.
type Config struct {
	Name      string // in the cluster; default the host's name
	Version   string
	Listen    string  // of /metrics, /status, /health, /ready; default 127.0.0.1:9400
	Advertise string  // host or address under which routers reach workers that listen on all addresses; default loopback
	Cluster   Cluster // nil: nobody is told
	Extra     Extra

	Workers   []string      // URLs that the operator names
	NoFind    bool          // use those only
	Ports     Ports         // that are looked at for workers; default 1024 to 65535
	FindEvery time.Duration // between two looks at the listening sockets; default 5 s: the kernel walks all of its table of connections for one
	Proc      string        // default /proc

	NVML   nvml.Config
	Health health.Config

	ProbeEvery time.Duration                 // between two GET /ready of a worker; default 2 s: routers probe for themselves, four times a second
	TLS        func(host string) *tls.Config // of workers with https; default as in package worker
	Dial       func(ctx context.Context, network, addr string) (net.Conn, error)
	Log        *slog.Logger
}

// ErrPorts is a list of ports that cannot be read.
var ErrPorts = errors.New("node: bad list of ports")

// Ports is a set of ports as closed intervals.
type Ports [][2]uint16

// anyPort leaves out the ports of system services: SGLang's default is 30000.
var anyPort = Ports{{1024, 65535}}

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

// String writes what ParsePorts reads.
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
	c.FindEvery = cmp.Or(c.FindEvery, 5*time.Second)
	c.ProbeEvery = cmp.Or(c.ProbeEvery, 2*time.Second)
	c.Proc = cmp.Or(c.Proc, "/proc")
	if len(c.Ports) == 0 {
		c.Ports = anyPort
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return nil
}
