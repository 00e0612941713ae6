package sidecar

import (
	"cmp"
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/sidecar/health"
	"github.com/warmpath/warmpath/nvml"
)

// Report is all that the node knows at one moment; /status is one. It is never changed.
type Report struct {
	Name      string         `json:"name"`
	Instance  string         `json:"instance"`
	Version   string         `json:"version"`
	Started   time.Time      `json:"started"`
	At        time.Time      `json:"at"`
	Advertise string         `json:"advertise"` // where routers reach workers that listen on all addresses
	Cluster   ClusterReport  `json:"cluster"`
	Driver    DriverReport   `json:"driver"`
	GPUs      []GPUReport    `json:"gpus"`
	Workers   []WorkerReport `json:"workers"`
	Find      FindReport     `json:"find"`
	Tier      *cluster.Tier  `json:"tier"`
	Links     []cluster.Link `json:"links"`

	looked bool          // the sockets have been looked at
	next   chan struct{} // closed when a newer report is there
}

// Next is closed as soon as there is a newer report.
func (r *Report) Next() <-chan struct{} { return r.next }

// Ready reports whether the machine has been looked at once: the driver was asked, and so were the sockets.
func (r *Report) Ready() bool { return r.looked && r.Driver.State != nvml.StateStarting }

// ClusterReport says how the node and the cluster stand.
type ClusterReport struct {
	State     string    `json:"state"`           // none, up, or down: NATS is out of reach
	Told      uint64    `json:"told"`            // records handed to it
	At        time.Time `json:"at,omitzero"`     // when the last one was
	Error     string    `json:"error,omitempty"` // of the last one
	Routers   int       `json:"routers"`
	Nodes     int       `json:"nodes"`
	Unreached []string  `json:"unreached,omitempty"` // workers that are not told of, for routers could not reach them
}

// DriverReport is how the driver answers.
type DriverReport struct {
	State  nvml.State    `json:"state"`
	Detail string        `json:"detail,omitempty"`
	At     time.Time     `json:"at"`             // of the last read
	Took   time.Duration `json:"took_ns"`        // what that cost
	Busy   string        `json:"busy,omitempty"` // the call that is under way, and since when
	nvml.Driver
}

// GPUReport is one GPU: facts, what they mean, who computes on it.
type GPUReport struct {
	Health  health.Result `json:"health"`
	Workers []string      `json:"workers"` // URLs
	XIDs    map[int]int   `json:"xids"`    // how often each was heard of, by code, since the node runs
	Facts   nvml.GPU      `json:"facts"`
}

// WorkerReport is one worker.
type WorkerReport struct {
	URL    string         `json:"url"`              // under which this node reaches it
	Public string         `json:"public,omitempty"` // under which routers do
	Why    string         `json:"why,omitempty"`    // why they cannot
	Named  bool           `json:"named"`            // by the operator, not found
	PID    int            `json:"pid,omitempty"`
	State  string         `json:"state"` // by GET /ready, and of a prefill worker by its bootstrap server too
	Since  time.Time      `json:"since"`
	Error  string         `json:"error,omitempty"` // of the last probe
	Role   string         `json:"role,omitempty"`
	Model  string         `json:"model,omitempty"`
	SGLang string         `json:"sglang,omitempty"` // its release
	TP     int            `json:"tp,omitempty"`
	DP     int            `json:"dp,omitempty"`
	Port   int            `json:"bootstrap_port,omitempty"`
	Events bool           `json:"events"` // it publishes KV events
	GPUs   []string       `json:"gpus"`   // UUIDs
	Placed string         `json:"placed"` // how the GPUs are known: by processes, by environment; or why they are not
	Health cluster.Health `json:"health"`
}

// FindReport says where workers were looked for, and what could not be seen.
type FindReport struct {
	On        bool        `json:"on"`
	Ports     string      `json:"ports"`
	Listeners int         `json:"listeners"`        // sockets on these ports
	Unowned   int         `json:"unowned"`          // of them, those whose process is not seen
	Hidden    int         `json:"hidden_processes"` // whose open files this user may not see
	Asked     uint64      `json:"asked"`            // questions to sockets that are there now
	Not       []NotWorker `json:"not_workers"`      // at most 64
	Note      string      `json:"note,omitempty"`   // for people: what to do about what is not seen
	Error     string      `json:"error,omitempty"`
}

// NotWorker is a listener that is no worker.
type NotWorker struct {
	Addr    string `json:"addr"`
	PID     int    `json:"pid,omitempty"`
	Process string `json:"process,omitempty"`
	Why     string `json:"why"`
	Again   bool   `json:"again"` // it will be asked again
}

const (
	maxNot     = 64
	maxProcess = 120 // characters of a command line
)

// describe says what a look at the sockets saw.
func (f *finder) describe(sockets []listener, failed string) FindReport {
	r := FindReport{On: !f.cfg.NoFind, Ports: f.cfg.Ports.String(), Listeners: len(sockets), Hidden: f.hidden, Not: []NotWorker{}, Error: failed}
	for _, l := range sockets {
		c := f.sockets[l]
		if c.pid == 0 {
			r.Unowned++
		}
		r.Asked += uint64(c.asks)
		if c.why == "" || len(r.Not) >= maxNot {
			continue
		}
		r.Not = append(r.Not, NotWorker{
			Addr: l.addr.String(), PID: c.pid, Process: c.command[:min(len(c.command), maxProcess)], Why: c.why, Again: !c.next.IsZero(),
		})
	}
	slices.SortFunc(r.Not, func(a, b NotWorker) int { return cmp.Compare(a.Addr, b.Addr) })
	for _, e := range f.workers {
		if e.Listen.IsValid() && e.PID == 0 {
			r.Note = "the processes of workers are not seen, so it is not known on which GPUs they compute: " +
				"run as root or as the workers' user, and in a container with the host's PIDs (--pid host)"
		}
	}
	return r
}
