package link

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/nixl"
)

// Bus carries requests for memory; [cluster.Cluster] is one.
type Bus interface {
	Request(ctx context.Context, subject string, data []byte) ([]byte, error)
	Reply(subject string, f func(data []byte) []byte) (stop func(), err error)
}

// Config configures a Prober; zero fields take the defaults.
type Config struct {
	Node   string          // name of this node
	Bus    Bus             // required
	Peers  func() []string // returns the present names of all nodes; required
	Fabric nixl.Fabric     // nil: this node has no NIXL, and refuses requests

	Every time.Duration // interval of measurements of one link, varied by a fifth; default 10 min
	Retry time.Duration // after a failure, doubled each time up to Every; default 30 s
	Scan  time.Duration // interval of looks at the nodes; default 5 s
	// Bytes of the largest transfer; default 64 MiB, and a link takes about four.
	Largest int
	Log     *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Every = cmp.Or(c.Every, 10*time.Minute)
	c.Retry = cmp.Or(c.Retry, 30*time.Second)
	c.Scan = cmp.Or(c.Scan, 5*time.Second)
	if c.Largest <= 0 || c.Largest > maxTransfer {
		c.Largest = maxTransfer
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c *Config) facts() Facts { return ReadFacts("/", c.Node) }

// probeTimeout bounds one transfer: 64 MiB at 10 MB/s.
const probeTimeout = 7 * time.Second

// Prober measures the links from this node to the other nodes.
type Prober struct {
	cfg   Config
	offer offeredMemory
	own   end // of Run

	mu    sync.Mutex
	links map[string]*linkState // by node; guarded by mu
}

// linkState is a link and the time of its next measurement.
type linkState struct {
	link  cluster.Link
	due   time.Time
	fails int
}

// New returns a prober. Run must follow.
func New(cfg Config) (*Prober, error) {
	if cfg.Bus == nil || cfg.Peers == nil || cfg.Node == "" {
		return nil, errors.New("link: a prober needs a node's name, a bus and peers")
	}
	p := &Prober{cfg: cfg.withDefaults(), links: map[string]*linkState{}}
	p.offer.cfg, p.offer.name = &p.cfg, "offer"
	p.own.cfg, p.own.name = &p.cfg, "probe"
	return p, nil
}

// subject returns the subject of requests to a node; its name may have any characters.
func subject(node string) string { return "link." + hex.EncodeToString([]byte(node)) }

// Run offers memory and measures links until ctx ends.
func (p *Prober) Run(ctx context.Context) error {
	stop, err := p.cfg.Bus.Reply(subject(p.cfg.Node), p.offer.answer)
	if err != nil {
		return fmt.Errorf("cannot offer memory to other nodes: %w", err)
	}
	defer func() {
		stop()
		if err := errors.Join(p.offer.close(), p.own.close()); err != nil {
			p.cfg.Log.Warn("cannot end link measurements", "error", err)
		}
	}()
	tick := time.NewTicker(p.cfg.Scan)
	defer tick.Stop()
	for {
		for node := p.nextDue(time.Now()); node != "" && ctx.Err() == nil; node = p.nextDue(time.Now()) {
			p.probe(ctx, node)
		}
		p.own.free()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Links returns the results by node.
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

// Agents returns the statistics of the NIXL agents for own measurements and for those of other
// nodes.
func (p *Prober) Agents() map[string]nixl.Stats {
	all := map[string]nixl.Stats{}
	for name, e := range map[string]*end{"link-measures": &p.own, "link-offers": &p.offer.end} {
		if a := e.agent.Load(); a != nil {
			all[name] = a.Stats()
		}
	}
	return all
}

// nextDue returns the node whose link is due first, or "". It forgets nodes that are gone.
func (p *Prober) nextDue(now time.Time) string {
	nodes := p.cfg.Peers()
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.links, func(node string, _ *linkState) bool { return !slices.Contains(nodes, node) })
	first := ""
	for _, node := range nodes {
		if node == p.cfg.Node {
			continue
		}
		s := p.links[node]
		if s == nil {
			s = &linkState{due: now}
			p.links[node] = s
		}
		if !s.due.After(now) && (first == "" || s.due.Before(p.links[first].due)) {
			first = node
		}
	}
	return first
}

// probe measures one link and stores the result.
func (p *Prober) probe(ctx context.Context, node string) {
	ctx, cancel := context.WithTimeout(ctx, 8*probeTimeout)
	defer cancel()
	link, err := p.measure(ctx, node)
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.links[node]
	if s == nil { // the node is gone
		return
	}
	link.To, link.At = node, now
	wait := p.cfg.Every
	switch {
	case err == nil:
		s.fails = 0
	case errors.Is(err, errNotMeasured):
		link = s.link
		link.To, link.Unknown = node, err.Error()
	default:
		link.Path, link.Broken = string(Unknown), err.Error()
	}
	if err != nil {
		wait = min(p.cfg.Retry<<min(s.fails, 16), p.cfg.Every)
		s.fails++
	}
	for _, words := range []*string{&link.Slow, &link.Broken, &link.Unknown} {
		*words = bounded(*words)
	}
	p.logChange(&s.link, &link)
	s.link = link
	s.due = now.Add(wait - wait/10 + rand.N(wait/5+1)) // nodes do not measure at the same time
}

// maxWords bounds the words about a link in bytes. The other node chooses some of them, and they
// are in this node's record: too long ones would keep the record from the cluster.
const maxWords = 512

func bounded(words string) string {
	if len(words) <= maxWords {
		return words
	}
	return strings.ToValidUTF8(words[:maxWords], "") + "…"
}

// logChange logs the changes of a link.
func (p *Prober) logChange(was, is *cluster.Link) {
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
