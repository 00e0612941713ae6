package link

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/nixl"
)

const (
	// maxTransfer is the largest measured transfer.
	maxTransfer = 64 << 20
	// offerTimeout is the time after which unused memory is freed; a measurement takes a second
	// or two.
	offerTimeout = time.Minute
)

// Offer is the answer to a request: memory that the other node may read and write.
type Offer struct {
	Facts    Facts  `json:"facts"`
	Metadata []byte `json:"metadata,omitempty"`
	Memory   uint32 `json:"memory,omitempty"`
	Refused  string `json:"refused,omitempty"` // the reason without memory
}

// end is an agent and its memory, made when they are needed. It belongs to one goroutine at a time,
// but for the agent, which any may read.
type end struct {
	cfg    *Config
	name   string
	agent  atomic.Pointer[nixl.Agent]
	memory *nixl.Memory
}

func (e *end) open() (agent *nixl.Agent, err error) {
	if e.cfg.Fabric == nil {
		return nil, errNoFabric
	}
	if agent = e.agent.Load(); agent == nil {
		if agent, err = nixl.NewAgent(e.cfg.Fabric, nixl.Config{Name: e.cfg.Node + "-link-" + e.name, Timeout: probeTimeout, Log: e.cfg.Log}); err != nil {
			return nil, err
		}
		e.agent.Store(agent)
	}
	if e.memory != nil {
		return agent, nil
	}
	mapping, err := nixl.NewMapping("warmpath-link-"+e.name, maxTransfer)
	if err != nil {
		return nil, err
	}
	e.memory, err = agent.Register(mapping)
	return agent, errors.Join(err, mapping.Close()) // the registration keeps the memory
}

// free frees the memory. A measurement under way fails, and is repeated.
func (e *end) free() {
	if e.memory == nil {
		return
	}
	if err := e.memory.Close(); err != nil {
		e.cfg.Log.Warn("cannot free the memory of link measurements", "error", err)
	}
	e.memory = nil
}

func (e *end) close() error {
	e.free()
	if a := e.agent.Load(); a != nil {
		return a.Close()
	}
	return nil
}

// offeredMemory is the memory for measurements by other nodes.
type offeredMemory struct {
	end

	mu     sync.Mutex // guards end, as that says, and all below
	timer  *time.Timer
	closed bool
}

// answer answers a request of another node.
func (o *offeredMemory) answer([]byte) []byte {
	out := Offer{Facts: o.cfg.facts()}
	var err error
	if out.Metadata, out.Memory, err = o.open(); err != nil {
		out = Offer{Facts: out.Facts, Refused: err.Error()}
	}
	data, err := json.Marshal(out)
	if err != nil { // never
		return nil
	}
	return data
}

// open makes the memory, or keeps it for another offerTimeout.
func (o *offeredMemory) open() (metadata []byte, id uint32, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, 0, errShutdown
	}
	agent, err := o.end.open()
	if err != nil {
		return nil, 0, err
	}
	if o.timer == nil {
		o.timer = time.AfterFunc(offerTimeout, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.free()
		})
	}
	o.timer.Reset(offerTimeout)
	metadata, err = agent.Metadata()
	return metadata, o.memory.ID(), err
}

// close frees the memory and ends the agent.
func (o *offeredMemory) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	if o.timer != nil {
		o.timer.Stop()
	}
	return o.end.close()
}

var (
	errShutdown = errors.New("link: shutting down")
	errNoFabric = errors.New("link: no NIXL on this node")
)

// readOffer parses the answer of another node.
func readOffer(data []byte) (*Offer, error) {
	var o Offer
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, fmt.Errorf("%w: cannot read the offer: %w", errNotMeasured, err)
	}
	if o.Refused != "" {
		return nil, fmt.Errorf("%w: it offers no memory: %s", errNotMeasured, o.Refused)
	}
	return &o, nil
}
