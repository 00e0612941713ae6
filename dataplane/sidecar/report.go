package sidecar

import (
	"cmp"
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/sidecar/health"
	"github.com/warmpath/warmpath/nvml"
)

// Report is the state of the node at one moment, as /status serves it. It is immutable.
type Report struct {
	Name      string          `json:"name"`
	Instance  string          `json:"instance"`
	Version   string          `json:"version"`
	Started   time.Time       `json:"started"`
	At        time.Time       `json:"at"`
	Advertise string          `json:"advertise"` // host of workers that listen on all addresses
	Cluster   ClusterReport   `json:"cluster"`
	Driver    DriverReport    `json:"driver"`
	GPUs      []GPUReport     `json:"gpus"`
	Workers   []WorkerReport  `json:"workers"`
	Discovery DiscoveryReport `json:"find"`
	Tier      *cluster.Tier   `json:"tier"`
	Links     []cluster.Link  `json:"links"`

	scanned bool          // there was a scan of the sockets
	next    chan struct{} // closed by the next report
}

// Next returns a channel that the next report closes.
func (r *Report) Next() <-chan struct{} { return r.next }

// Ready reports whether driver and sockets were read once.
func (r *Report) Ready() bool { return r.scanned && r.Driver.State != nvml.StateStarting }

// ClusterReport is the state of the connection to the cluster.
type ClusterReport struct {
	State   string    `json:"state"`           // none, up, or down: NATS is out of reach
	Records uint64    `json:"told"`            // written
	At      time.Time `json:"at,omitzero"`     // of the last record
	Error   string    `json:"error,omitempty"` // of the last record
	Routers int       `json:"routers"`
	Nodes   int       `json:"nodes"`
	// Workers left out, as routers cannot reach them.
	Unreached []string `json:"unreached,omitempty"`
}

// DriverReport is the state of NVIDIA's driver.
type DriverReport struct {
	State  nvml.State    `json:"state"`
	Detail string        `json:"detail,omitempty"`
	At     time.Time     `json:"at"`             // of the last read
	Took   time.Duration `json:"took_ns"`        // by the last read
	Busy   string        `json:"busy,omitempty"` // call under way, and its duration
	nvml.Driver
}

// GPUReport is one GPU: its facts, its health and its workers.
type GPUReport struct {
	Health  health.Result `json:"health"`
	Workers []string      `json:"workers"` // URLs
	XIDs    map[int]int   `json:"xids"`    // number by code, since the start of the sidecar
	Facts   nvml.GPU      `json:"facts"`
}

// WorkerReport is one worker.
type WorkerReport struct {
	URL         string `json:"url"`              // for this node
	Public      string `json:"public,omitempty"` // for routers
	Unreachable string `json:"why,omitempty"`    // the reason without a public URL
	Named       bool   `json:"named"`            // by the operator
	PID         int    `json:"pid,omitempty"`
	// By GET /ready, and by the bootstrap server of a prefill worker.
	State  string         `json:"state"`
	Since  time.Time      `json:"since"`
	Error  string         `json:"error,omitempty"` // of the last probe
	Role   string         `json:"role,omitempty"`
	Model  string         `json:"model,omitempty"`
	SGLang string         `json:"sglang,omitempty"` // release
	TP     int            `json:"tp,omitempty"`
	DP     int            `json:"dp,omitempty"`
	Port   int            `json:"bootstrap_port,omitempty"`
	Events bool           `json:"events"` // it publishes KV events
	GPUs   []string       `json:"gpus"`   // UUIDs
	Placed string         `json:"placed"` // source of the GPUs, or the reason for its absence
	Health cluster.Health `json:"health"`
}

// DiscoveryReport is the outcome of the last scan for workers.
type DiscoveryReport struct {
	On        bool   `json:"on"`
	Ports     string `json:"ports"`
	Listeners int    `json:"listeners"` // sockets on these ports
	Unowned   int    `json:"unowned"`   // of these, sockets without a visible process
	// Processes whose open files this user may not see.
	Hidden     int         `json:"hidden_processes"`
	Asked      uint64      `json:"asked"`          // questions to the present sockets
	NotWorkers []NotWorker `json:"not_workers"`    // at most 64
	Note       string      `json:"note,omitempty"` // advice where processes are not visible
	Error      string      `json:"error,omitempty"`
}

// NotWorker is a listening socket of no worker.
type NotWorker struct {
	Addr    string `json:"addr"`
	PID     int    `json:"pid,omitempty"`
	Process string `json:"process,omitempty"`
	Reason  string `json:"why"`
	Again   bool   `json:"again"` // it is asked again later
}

const (
	maxNot     = 64
	maxProcess = 120 // characters of a command line
)

// describe makes the report of a scan.
func (d *discovery) describe(sockets []listenSocket, failed string) DiscoveryReport {
	r := DiscoveryReport{On: !d.cfg.NoDiscovery, Ports: d.cfg.Ports.String(), Listeners: len(sockets), Hidden: d.hidden, NotWorkers: []NotWorker{}, Error: failed}
	for _, l := range sockets {
		c := d.sockets[l]
		if c.pid == 0 {
			r.Unowned++
		}
		r.Asked += uint64(c.asks)
		if c.reason == "" || len(r.NotWorkers) >= maxNot {
			continue
		}
		r.NotWorkers = append(r.NotWorkers, NotWorker{
			Addr: l.addr.String(), PID: c.pid, Process: c.command[:min(len(c.command), maxProcess)], Reason: c.reason, Again: !c.next.IsZero(),
		})
	}
	slices.SortFunc(r.NotWorkers, func(a, b NotWorker) int { return cmp.Compare(a.Addr, b.Addr) })
	for _, e := range d.workers {
		if e.Listen.IsValid() && e.PID == 0 {
			r.Note = "the processes of workers are not visible, so their GPUs are unknown: " +
				"run as root or as the workers' user, and in a container with the host's PIDs (--pid host)"
		}
	}
	return r
}
