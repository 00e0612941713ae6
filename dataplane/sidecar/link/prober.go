package link

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/nixl"
)

// Bus carries the requests for memory; [cluster.Cluster] is one.
type Bus interface {
	Request(ctx context.Context, subject string, data []byte) ([]byte, error)
	Reply(subject string, f func(data []byte) []byte) (stop func(), err error)
}

// Config says what a prober measures; zero fields take the defaults.
type Config struct {
	Node   string          // this one's name
	Bus    Bus             // required
	Peers  func() []string // names of the other nodes as they are known now; required
	Fabric nixl.Fabric     // nil: this node has no NIXL, and says so to who asks

	Backend string        // of NIXL; default UCX
	Every   time.Duration // between two measurements of one link, with a fifth of chance; default 10 min
	Retry   time.Duration // after a failure, doubled each time up to Every; default 30 s
	Look    time.Duration // between two looks at the nodes; default 5 s
	Largest int           // bytes of the largest transfer; default 64 MiB, of which one link takes about four
	Root    string        // where /proc and /sys are; default /
	Log     *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Every = orElse(c.Every, 10*time.Minute)
	c.Retry = orElse(c.Retry, 30*time.Second)
	c.Look = orElse(c.Look, 5*time.Second)
	if c.Largest <= 0 || c.Largest > offerBytes {
		c.Largest = offerBytes
	}
	if c.Root == "" {
		c.Root = "/"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func orElse(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

func (c *Config) facts() Facts { return Gather(c.Root, c.Node) }

func (c *Config) agent(what string) nixl.Config {
	return nixl.Config{Name: c.Node + "-link-" + what, Backend: c.Backend, Timeout: probeTimeout, Log: c.Log}
}

// probeTimeout bounds one transfer: 64 MiB at 10 MB/s.
const probeTimeout = 7 * time.Second

// Prober measures the links from this node to the others.
type Prober struct {
	cfg   Config
	offer offer

	mu    sync.Mutex
	links map[string]*state // by node; guarded by mu
	agent *nixl.Agent       // set once, by Run; guarded by mu for others

	memory *nixl.Memory // belongs to Run
}

// state is a link and when it is due.
type state struct {
	link  cluster.Link
	due   time.Time
	fails int
}

// New makes a prober that does nothing until Run.
func New(cfg Config) (*Prober, error) {
	if cfg.Bus == nil || cfg.Peers == nil || cfg.Node == "" {
		return nil, errors.New("link: a prober needs a node's name, a bus and peers")
	}
	p := &Prober{cfg: cfg.withDefaults(), links: map[string]*state{}}
	p.offer.cfg = &p.cfg
	return p, nil
}

// subject of the requests to a node, whose name may have any letters.
func subject(node string) string { return "link." + hex.EncodeToString([]byte(node)) }

// Run offers memory and measures until ctx is done.
func (p *Prober) Run(ctx context.Context) error {
	stop, err := p.cfg.Bus.Reply(subject(p.cfg.Node), p.offer.answer)
	if err != nil {
		return fmt.Errorf("cannot offer memory to other nodes: %w", err)
	}
	defer func() {
		stop()
		if err := errors.Join(p.offer.close(), p.close()); err != nil {
			p.cfg.Log.Warn("cannot end link measurements", "error", err)
		}
	}()
	tick := time.NewTicker(p.cfg.Look)
	defer tick.Stop()
	for {
		for node := p.next(time.Now()); node != "" && ctx.Err() == nil; node = p.next(time.Now()) {
			p.probe(ctx, node)
		}
		p.rest()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Links are the results, by node.
func (p *Prober) Links() []cluster.Link {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []cluster.Link
	for _, node := range slices.Sorted(maps.Keys(p.links)) {
		if s := p.links[node]; !s.link.At.IsZero() || s.link.Unknown != "" {
			list = append(list, s.link)
		}
	}
	return list
}

// Agents are the numbers of the NIXL agents that measure and that are measured, once there are some.
func (p *Prober) Agents() map[string]nixl.Stats {
	all := map[string]nixl.Stats{}
	p.mu.Lock()
	measures := p.agent
	p.mu.Unlock()
	if measures != nil {
		all["link-measures"] = measures.Stats()
	}
	if offers := p.offer.present(); offers != nil {
		all["link-offers"] = offers.Stats()
	}
	return all
}

// next is the node whose link is due first, or "". Nodes that are gone are forgotten.
func (p *Prober) next(now time.Time) string {
	nodes := p.cfg.Peers()
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.links, func(node string, _ *state) bool { return !slices.Contains(nodes, node) })
	first := ""
	for _, node := range nodes {
		if node == p.cfg.Node {
			continue
		}
		s := p.links[node]
		if s == nil {
			s = &state{due: now}
			p.links[node] = s
		}
		if !s.due.After(now) && (first == "" || s.due.Before(p.links[first].due)) {
			first = node
		}
	}
	return first
}

// probe measures one link and notes the result.
func (p *Prober) probe(ctx context.Context, node string) {
	ctx, cancel := context.WithTimeout(ctx, 8*probeTimeout)
	defer cancel()
	link, err := p.measure(ctx, node)
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.links[node]
	if s == nil { // gone in the meantime
		return
	}
	link.To, link.At = node, now
	wait := p.cfg.Every
	switch {
	case err == nil:
		s.fails = 0
	case errors.Is(err, errUnasked):
		link = s.link
		link.To, link.Unknown = node, err.Error()
	default:
		link.Path, link.Broken = string(Unknown), err.Error()
	}
	if err != nil {
		wait = min(p.cfg.Retry<<min(s.fails, 16), p.cfg.Every)
		s.fails++
	}
	p.tell(&s.link, &link)
	s.link = link
	s.due = now.Add(wait - wait/10 + rand.N(wait/5+1)) // not all nodes at the same time
}

// tell logs what has changed.
func (p *Prober) tell(was, is *cluster.Link) {
	switch {
	case is.Unknown != "":
		if was.Unknown == "" {
			p.cfg.Log.Info("a link is not measured", "to", is.To, "reason", is.Unknown)
		}
	case is.Broken != "" && was.Broken == "":
		p.cfg.Log.Warn("a link is broken", "to", is.To, "reason", is.Broken)
	case is.Broken == "" && (is.Slow != was.Slow || is.Path != was.Path) && is.Slow != "":
		p.cfg.Log.Warn("a link is slow", "to", is.To, "path", is.Path, "reason", is.Slow, "read_gb_s", is.Read/1e9, "write_gb_s", is.Write/1e9)
	case is.Broken == "" && (was.Path != is.Path || was.Broken != ""):
		p.cfg.Log.Info("a link was measured", "to", is.To, "path", is.Path, "read_gb_s", is.Read/1e9, "write_gb_s", is.Write/1e9)
	}
}

// rest gives the memory of measurements back until the next one.
func (p *Prober) rest() {
	if p.memory == nil {
		return
	}
	if err := p.memory.Close(); err != nil {
		p.cfg.Log.Warn("cannot give the memory of link measurements back", "error", err)
	}
	p.memory = nil
}

func (p *Prober) close() error {
	if p.agent == nil {
		return nil
	}
	return p.agent.Close()
}
