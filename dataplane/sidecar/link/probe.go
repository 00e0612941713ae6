package link

import (
	"context"
	"errors"
	"fmt"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/nixl"
)

// steps are the sizes, with how often each is moved: 278 MB in all at most, both ways.
var steps = []struct{ size, count int }{{64 << 10, 16}, {1 << 20, 8}, {offerBytes, 1}}

// maxTCPRead is the largest read over TCP: see the package's comment.
const maxTCPRead = 1 << 20

// errUnasked is why nothing is known of a link: bytes were not even tried to be moved.
var errUnasked = errors.New("link: not measured")

// measure asks a node for memory and moves bytes to it and from it. Its error is errUnasked where it came to no transfer because an end has
// no NIXL or gives no answer: the engines there may move bytes all the same.
func (p *Prober) measure(ctx context.Context, node string) (cluster.Link, error) {
	if p.cfg.Fabric == nil {
		return cluster.Link{}, fmt.Errorf("%w: %w", errUnasked, errNoFabric)
	}
	answer, err := p.cfg.Bus.Request(ctx, subject(node), nil)
	if err != nil {
		return cluster.Link{}, fmt.Errorf("%w: %w", errUnasked, err)
	}
	there, err := readOffer(answer)
	if err != nil {
		return cluster.Link{}, err
	}
	if err := p.open(); err != nil {
		return cluster.Link{}, err
	}
	remote, err := p.agent.Load(there.Metadata)
	if err != nil {
		return cluster.Link{}, err
	}
	defer remote.Close()
	theirs, err := remote.Memory(there.Memory)
	if err != nil {
		return cluster.Link{}, err
	}
	here := p.cfg.facts()
	return Probe(ctx, remote, p.memory, theirs, Ends{&here, &there.Facts, p.cfg.Largest})
}

// open makes the agent and the memory that measurements use.
func (p *Prober) open() (err error) {
	if p.agent == nil {
		agent, err := nixl.NewAgent(p.cfg.Fabric, p.cfg.agent("probe"))
		if err != nil {
			return err
		}
		p.mu.Lock()
		p.agent = agent
		p.mu.Unlock()
	}
	if p.memory == nil {
		p.memory, err = allocate(p.agent, "warmpath-link-probe")
	}
	return err
}

// Ends is what is known of both ends of a link.
type Ends struct {
	Here, There *Facts
	Largest     int // bytes; 0 is 64 MiB
}

// Probe measures a link by 64 KiB, 1 MiB and 64 MiB, written and read. Writes come first, since they tell the path.
func Probe(ctx context.Context, remote *nixl.Remote, local *nixl.Memory, theirs nixl.RemoteMemory, ends Ends) (cluster.Link, error) {
	var samples []Sample
	var l cluster.Link
	for _, op := range []nixl.Op{nixl.Write, nixl.Read} {
		for _, step := range steps {
			if ends.Largest > 0 && step.size > ends.Largest || op == nixl.Read && Path(l.Path) == TCP && step.size > maxTCPRead {
				continue
			}
			s, err := Measure(ctx, remote, local, theirs, Job{Op: op, Size: step.size, Count: step.count, Time: probeTimeout})
			if err != nil {
				return l, fmt.Errorf("cannot %s %d bytes: %w", opName(op), step.size, err)
			}
			samples = append(samples, s)
			note(&l, &s)
		}
		l.Path = string(Recognise(ends.Here, ends.There, samples))
	}
	l.Slow = Judge(ends.Here, ends.There, Path(l.Path), samples)
	return l, nil
}

// note enters a sample: the rate of the largest size, the time of the smallest.
func note(l *cluster.Link, s *Sample) {
	rate := &l.Read
	if s.Op == nixl.Write {
		rate = &l.Write
	}
	*rate = s.Best
	if s.Size == steps[0].size && (l.Latency == 0 || s.Latency.Min.Seconds() < l.Latency) {
		l.Latency = s.Latency.Min.Seconds()
	}
}
