package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/nixl"
)

// transport is this tier's part in NIXL. Two agents share one mapping of the memory: one is read from by peers, the other reads from them and may be
// replaced after a peer's death, without those who read from us noticing.
type transport struct {
	mu      sync.Mutex
	offers  *nixl.Agent  // guarded by mu; nil where there is no NIXL
	taking  *nixl.Agent  // guarded by mu
	welcome peerWelcome  // guarded by mu
	takes   *nixl.Memory // taking's; set before taking is
	mapping *nixl.Mapping
}

// openTransport makes the agents, which takes a second or two; until then, and where it fails, pages move by TCP.
func (t *Tier) openTransport(ctx context.Context) {
	f := t.cfg.Fabric
	if f == nil {
		return
	}
	began := time.Now()
	if err := t.tryTransport(f); err != nil {
		t.log.Warn("the KV tier has no NIXL, and moves pages between nodes by TCP", "error", err)
		return
	}
	if ctx.Err() == nil {
		t.log.Info("the KV tier's memory is registered with NIXL", "took", time.Since(began).Round(time.Millisecond))
	}
}

func (t *Tier) tryTransport(f nixl.Fabric) error {
	fd, err := unix.Dup(int(t.arena.file.Fd()))
	if err != nil {
		return fmt.Errorf("cannot share the tier's memory with NIXL: %w", err)
	}
	unix.CloseOnExec(fd)
	x := &t.nixl
	if x.mapping, err = nixl.AdoptFile(os.NewFile(uintptr(fd), "warmpath-kv-tier")); err != nil {
		return err
	}
	offers, err := nixl.NewAgent(f, nixl.Config{Name: t.cfg.Node, Log: t.log})
	if err != nil {
		return err
	}
	taking, err := nixl.NewAgent(f, nixl.Config{Name: t.cfg.Node, Log: t.log})
	if err != nil {
		return errors.Join(err, offers.Close())
	}
	memory, err := offers.Register(x.mapping)
	if err == nil {
		x.takes, err = taking.Register(x.mapping)
	}
	var metadata []byte
	if err == nil {
		metadata, err = offers.Metadata()
	}
	if err != nil {
		return errors.Join(err, offers.Close(), taking.Close())
	}
	x.mu.Lock()
	x.offers, x.taking, x.welcome = offers, taking, peerWelcome{memory: memory.ID(), metadata: metadata}
	x.mu.Unlock()
	return nil
}

// welcome is what a peer is told.
func (t *Tier) welcome() peerWelcome {
	t.nixl.mu.Lock()
	defer t.nixl.mu.Unlock()
	w := t.nixl.welcome
	w.instance, w.place, w.rdma = t.instance, t.place, t.rdma
	return w
}

// taker is the agent that reads from peers; nil where there is none.
func (t *Tier) taker() *nixl.Agent {
	t.nixl.mu.Lock()
	defer t.nixl.mu.Unlock()
	return t.nixl.taking
}

// offering is the agent that peers read from; nil where there is none.
func (t *Tier) offering() *nixl.Agent {
	t.nixl.mu.Lock()
	defer t.nixl.mu.Unlock()
	return t.nixl.offers
}

// Agents are the numbers of the tier's NIXL agents: of the one that peers read from, which does nothing itself, and of the one that reads. It is empty
// where there is no NIXL.
func (t *Tier) Agents() map[string]nixl.Stats {
	t.nixl.mu.Lock()
	offers, taking := t.nixl.offers, t.nixl.taking
	t.nixl.mu.Unlock()
	all := map[string]nixl.Stats{}
	if offers != nil {
		all["kv-tier-offers"] = offers.Stats()
	}
	if taking != nil {
		all["kv-tier-reads"] = taking.Stats()
	}
	return all
}

// closeTransport ends the agents. Peers that read from us then see that we are gone.
func (t *Tier) closeTransport() error {
	x := &t.nixl
	x.mu.Lock()
	offers, taking := x.offers, x.taking
	x.offers, x.taking, x.welcome = nil, nil, peerWelcome{}
	x.mu.Unlock()
	var err error
	for _, a := range []*nixl.Agent{taking, offers} {
		if a != nil {
			err = errors.Join(err, a.Close())
		}
	}
	if x.mapping != nil {
		err = errors.Join(err, x.mapping.Close())
	}
	return err
}
