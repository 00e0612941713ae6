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
	// offerBytes is the largest transfer that is measured.
	offerBytes = 64 << 20
	// offerAge is how long memory waits for another who asks; a measurement takes a second or two.
	offerAge = time.Minute
)

// Offer is the answer to who wants to measure: memory that may be read and written.
type Offer struct {
	Facts    Facts  `json:"facts"`
	Metadata []byte `json:"metadata,omitempty"`
	Memory   uint32 `json:"memory,omitempty"`
	Refused  string `json:"refused,omitempty"` // in words, where there is none
}

// offer is the memory that others measure on.
type offer struct {
	cfg *Config

	made atomic.Pointer[nixl.Agent] // agent, for who must not wait until it is made

	mu     sync.Mutex // guards all below
	agent  *nixl.Agent
	memory *nixl.Memory
	timer  *time.Timer
	closed bool
}

// answer is what the cluster's requests get.
func (o *offer) answer([]byte) []byte {
	out := Offer{Facts: o.cfg.facts()}
	metadata, id, err := o.open()
	if err != nil {
		out.Refused = err.Error()
	} else {
		out.Metadata, out.Memory = metadata, id
	}
	data, err := json.Marshal(out)
	if err != nil { // no part of it can fail
		return nil
	}
	return data
}

// open makes memory, or keeps what there is for another while.
func (o *offer) open() (metadata []byte, id uint32, err error) {
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
		o.made.Store(o.agent)
	}
	if o.memory == nil {
		if o.memory, err = allocate(o.agent, "warmpath-link-offer"); err != nil {
			return nil, 0, err
		}
		o.timer = time.AfterFunc(offerAge, o.giveBack)
	}
	o.timer.Reset(offerAge)
	metadata, err = o.agent.Metadata()
	return metadata, o.memory.ID(), err
}

// present is the agent that others measure on; nil while there is none.
func (o *offer) present() *nixl.Agent { return o.made.Load() }

// giveBack ends the offer; whoever still measures fails, and asks again.
func (o *offer) giveBack() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.giveBackLocked()
}

func (o *offer) giveBackLocked() {
	if o.memory == nil {
		return
	}
	if err := o.memory.Close(); err != nil {
		o.cfg.Log.Warn("cannot give the memory of link measurements back", "error", err)
	}
	o.memory = nil
}

// close ends the agent too.
func (o *offer) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	if o.timer != nil {
		o.timer.Stop()
	}
	o.giveBackLocked()
	if o.agent == nil {
		return nil
	}
	return o.agent.Close()
}

var (
	errShutdown = errors.New("link: shutting down")
	errNoFabric = errors.New("link: no NIXL on this node")
)

// allocate makes and registers memory that lives as long as its registration.
func allocate(a *nixl.Agent, name string) (*nixl.Memory, error) {
	mapping, err := nixl.NewMapping(name, offerBytes)
	if err != nil {
		return nil, err
	}
	memory, err := a.Register(mapping)
	return memory, errors.Join(err, mapping.Close())
}

// readOffer checks what another node has answered.
func readOffer(data []byte) (*Offer, error) {
	var o Offer
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, fmt.Errorf("%w: cannot read its offer: %w", errUnasked, err)
	}
	if o.Refused != "" {
		return nil, fmt.Errorf("%w: it offers no memory: %s", errUnasked, o.Refused)
	}
	return &o, nil
}
