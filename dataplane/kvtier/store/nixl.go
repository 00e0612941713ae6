package store

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/warmpath/warmpath/nixl"
)

// transport is the NIXL side of a store. Two agents share one mapping of the memory: peers read
// from the one that serves; the one that reads may be replaced after the death of a peer without
// a disturbance of our readers.
type transport struct {
	fabric nixl.Fabric // nil: TCP only
	node   string
	log    *slog.Logger
	arena  *arena
	own    welcome // instance, locality and RDMA of this process

	mu      sync.Mutex
	serving *nixl.Agent // guarded by mu; nil without NIXL
	reading *nixl.Agent // guarded by mu
	memory  uint32      // of serving; guarded by mu
	encoded []byte      // metadata of serving; guarded by mu

	local *nixl.Memory // of reading; set before reading is
}

// open makes the agents, which takes a second or two; until then, and after a failure, pages move
// by TCP.
func (x *transport) open(ctx context.Context) {
	if x.fabric == nil {
		return
	}
	began := time.Now()
	if err := x.makeAgents(); err != nil {
		x.log.Warn("the KV tier has no NIXL, and moves pages between nodes by TCP", "error", err)
		return
	}
	if ctx.Err() == nil {
		x.log.Info("the KV tier's memory is registered with NIXL", "took", time.Since(began).Round(time.Millisecond))
	}
}

func (x *transport) makeAgents() error {
	serving, err := nixl.NewAgent(x.fabric, nixl.Config{Name: x.node, Log: x.log})
	if err != nil {
		return err
	}
	reading, err := nixl.NewAgent(x.fabric, nixl.Config{Name: x.node, Log: x.log})
	if err != nil {
		return errors.Join(err, serving.Close())
	}
	memory, err := serving.Register(x.arena.memory)
	if err == nil {
		x.local, err = reading.Register(x.arena.memory)
	}
	var metadata []byte
	if err == nil {
		metadata, err = serving.Metadata()
	}
	if err != nil {
		return errors.Join(err, serving.Close(), reading.Close())
	}
	x.mu.Lock()
	x.serving, x.reading, x.memory, x.encoded = serving, reading, memory.ID(), metadata
	x.mu.Unlock()
	return nil
}

// welcome returns the answer to a peer's hello.
func (x *transport) welcome() welcome {
	x.mu.Lock()
	defer x.mu.Unlock()
	w := x.own
	w.memory, w.metadata = x.memory, x.encoded
	return w
}

// reader returns the agent that reads from peers, or nil.
func (x *transport) reader() *nixl.Agent {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.reading
}

// server returns the agent from which peers read, or nil.
func (x *transport) server() *nixl.Agent {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.serving
}

// agents returns the statistics of both agents; none without NIXL.
func (x *transport) agents() map[string]nixl.Stats {
	all := map[string]nixl.Stats{}
	if a := x.server(); a != nil {
		all["kv-tier-offers"] = a.Stats()
	}
	if a := x.reader(); a != nil {
		all["kv-tier-reads"] = a.Stats()
	}
	return all
}

// close ends the agents, which peers that read from us notice.
func (x *transport) close() error {
	x.mu.Lock()
	serving, reading := x.serving, x.reading
	x.serving, x.reading, x.memory, x.encoded = nil, nil, 0, nil
	x.mu.Unlock()
	var err error
	for _, a := range []*nixl.Agent{reading, serving} {
		if a != nil {
			err = errors.Join(err, a.Close())
		}
	}
	return err
}
