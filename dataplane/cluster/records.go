package cluster

import "time"

// Node is a sidecar's record of its machine, under one lease: when its beats stop, its workers
// leave with it.
type Node struct {
	Name     string    `json:"name"`     // by default the host's name; unique in the cluster
	Instance string    `json:"instance"` // random, new for each process
	Version  string    `json:"version"`
	Started  time.Time `json:"started"`
	// Base URL of the sidecar's own HTTP API as other nodes reach it; "" is none.
	Control string   `json:"control,omitempty"`
	Workers []Worker `json:"workers"`        // sorted by URL
	GPUs    []GPU    `json:"gpus,omitempty"` // in the driver's order
	// State of the driver in words: "ready", "no library", ….
	Driver string `json:"driver,omitempty"`
	Tier   *Tier  `json:"tier,omitempty"`  // nil: the node keeps no KV tier
	Links  []Link `json:"links,omitempty"` // measured from this node to others
}

// Worker is one SGLang server as its node sees it.
type Worker struct {
	URL           string `json:"url"`            // as routers reach it
	Role          string `json:"role,omitempty"` // regular, prefill or decode
	Model         string `json:"model,omitempty"`
	BootstrapHost string `json:"bootstrap_host,omitempty"`
	BootstrapPort int    `json:"bootstrap_port,omitempty"`
	PID           int    `json:"pid,omitempty"`
	// UUIDs of the GPUs that it computes on, in its own order.
	GPUs []string `json:"gpus,omitempty"`
	TP   int      `json:"tp,omitempty"` // tensor-parallel size; 0 is unknown
	DP   int      `json:"dp,omitempty"` // data-parallel ranks; 0 is unknown
	// Of the worst of its GPUs, as dataplane/sidecar/health judges.
	Health Health `json:"health"`
}

// Health is the meaning of facts about GPUs for the choice.
type Health struct {
	// "" (unknown: as healthy), healthy, degraded, draining, dead.
	State string `json:"state,omitempty"`
	// Share of its speed that is left, in (0, 1]; 0 is unknown: 1.
	Weight float64 `json:"weight,omitempty"`
	// Must not compute one request together with other GPUs.
	NoTP bool `json:"no_tp,omitempty"`
	// Bytes of GPU memory, of the GPU with the least; 0 is unknown.
	Free    int64    `json:"free,omitempty"`
	Reasons []string `json:"reasons,omitempty"` // in words, worst first
}

// GPU is one GPU of a node.
type GPU struct {
	UUID    string `json:"uuid"`
	Index   int    `json:"index"`
	Name    string `json:"name,omitempty"`
	Used    uint64 `json:"used,omitempty"`  // bytes of memory
	Total   uint64 `json:"total,omitempty"` // bytes of memory
	LinksUp int    `json:"links_up,omitempty"`
	Links   int    `json:"links,omitempty"`
	Health  Health `json:"health"`
}

// Tier is a node's KV tier in host memory.
type Tier struct {
	Bytes    int64  `json:"bytes"` // bound
	Used     int64  `json:"used"`
	Pages    int64  `json:"pages"`
	Endpoint string `json:"endpoint,omitempty"` // where other sidecars ask for pages: host:port
	Agent    string `json:"agent,omitempty"`    // name of its NIXL agent; "" where there is no NIXL
	// Speed is the speed at which engines copy pages from it into their host memory, in bytes a
	// second; 0 is unknown. It changes in steps of a quarter at least.
	Speed float64 `json:"speed,omitempty"`
}

// Link is a measured connection between two nodes.
type Link struct {
	To      string  `json:"to"`      // node
	Path    string  `json:"path"`    // rdma, cma, shm, tcp, or unknown
	Read    float64 `json:"read"`    // bytes a second at the largest size
	Write   float64 `json:"write"`   // bytes a second at the largest size
	Latency float64 `json:"latency"` // seconds of the smallest transfer
	// In words, where it is slower than the hardware should be.
	Slow   string    `json:"slow,omitempty"`
	Broken string    `json:"broken,omitempty"` // in words, where nothing could be moved
	At     time.Time `json:"at"`               // of the measurement; zero where there was none
	// Unknown is why the last try measured nothing, in words: an end without NIXL, or without an
	// answer. The other fields hold as of At.
	Unknown string `json:"unknown,omitempty"`
}

// Router is the record of a router.
type Router struct {
	ID       string    `json:"id"` // random, new for each process
	Addr     string    `json:"addr"`
	Operator string    `json:"operator,omitempty"`
	Version  string    `json:"version"`
	Started  time.Time `json:"started"`
	// Workers are the URLs of the router's workers that the cluster does not name: of its flags,
	// files and operators.
	Workers []string `json:"workers,omitempty"`
}

// MaxWorkers bounds the workers of a record: routers probe each.
const MaxWorkers = 1024

// Mark drains or cordons a node or a worker for an operator. It has no lease: it holds until it
// is removed.
type Mark struct {
	Target string `json:"target"` // a node's name or a worker's URL
	// Finish requests, take no new ones; a node's mark holds for all its workers.
	Drain  bool      `json:"drain"`
	Cordon bool      `json:"cordon"` // use no new worker of the node; the ones in use stay
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at"`
}

// View is the cluster at one moment. It is never changed after it was published.
type View struct {
	Nodes   []Node   `json:"nodes"`    // by name
	Routers []Router `json:"replicas"` // by ID
	Marks   []Mark   `json:"marks"`    // by target
	// False: NATS is out of reach, and this is the last known state.
	Up bool `json:"up"`
	// Of the last change or, while Up, of the last word from NATS.
	At time.Time `json:"at"`
	// Newer are the names of living nodes with records that only a later release reads, sorted.
	Newer []string `json:"newer,omitempty"`

	revisions map[string]uint64 // of marks, by target; see markSet
}
