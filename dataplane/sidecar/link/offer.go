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

// offeredMemory is the memory for measurements by other nodes.
type offeredMemory struct {
	cfg *Config

	currentAgent atomic.Pointer[nixl.Agent] // agent, for readers that must not wait for mu

	mu     sync.Mutex // guards all below
	agent  *nixl.Agent
	memory *nixl.Memory
	timer  *time.Timer
	closed bool
}

// answer answers a request of another node.
func (o *offeredMemory) answer([]byte) []byte {
	out := Offer{Facts: o.cfg.facts()}
	metadata, id, err := o.open()
	if err != nil {
		out.Refused = err.Error()
	} else {
		out.Metadata, out.Memory = metadata, id
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
	switch {
	case o.closed:
		return nil, 0, errShutdown
	case o.cfg.Fabric == nil:
		return nil, 0, errNoFabric
	}
	if o.agent == nil {
		if o.agent, err = nixl.NewAgent(o.cfg.Fabric, o.cfg.agent("offer")); err != nil {
			return nil, 0, err
		}
		o.currentAgent.Store(o.agent)
	}
	if o.memory == nil {
		if o.memory, err = allocate(o.agent, "warmpath-link-offer"); err != nil {
			return nil, 0, err
		}
		o.timer = time.AfterFunc(offerTimeout, o.free)
	}
	o.timer.Reset(offerTimeout)
	metadata, err = o.agent.Metadata()
	return metadata, o.memory.ID(), err
}

// present returns the agent of the memory, or nil.
func (o *offeredMemory) present() *nixl.Agent { return o.currentAgent.Load() }

// free frees the memory. A measurement under way fails, and is repeated.
func (o *offeredMemory) free() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.freeLocked()
}

func (o *offeredMemory) freeLocked() {
	if o.memory == nil {
		return
	}
	if err := o.memory.Close(); err != nil {
		o.cfg.Log.Warn("cannot free the memory of link measurements", "error", err)
	}
	o.memory = nil
}

// close frees the memory and ends the agent.
func (o *offeredMemory) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	if o.timer != nil {
		o.timer.Stop()
	}
	o.freeLocked()
	if o.agent == nil {
		return nil
	}
	return o.agent.Close()
}

var (
	errShutdown = errors.New("link: shutting down")
	errNoFabric = errors.New("link: no NIXL on this node")
)

// allocate makes and registers memory, which lives as long as its registration.
func allocate(a *nixl.Agent, name string) (*nixl.Memory, error) {
	mapping, err := nixl.NewMapping(name, maxTransfer)
	if err != nil {
		return nil, err
	}
	memory, err := a.Register(mapping)
	return memory, errors.Join(err, mapping.Close())
}

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
