package link

import (
	"context"
	"errors"
	"fmt"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/nixl"
)

// probeSizes are the sizes and the number of transfers of each: 278 MB in all at most, both ways.
var probeSizes = []struct{ size, count int }{{64 << 10, 16}, {1 << 20, 8}, {maxTransfer, 1}}

// maxTCPRead bounds reads over TCP: see the package comment.
const maxTCPRead = 1 << 20

// errNotMeasured says that no transfer was tried.
var errNotMeasured = errors.New("link: not measured")

// measure asks a node for memory and measures transfers in both directions. It returns
// errNotMeasured where an end has no NIXL or does not answer: the engines there may transfer
// pages all the same.
func (p *Prober) measure(ctx context.Context, node string) (cluster.Link, error) {
	if p.cfg.Fabric == nil {
		return cluster.Link{}, fmt.Errorf("%w: %w", errNotMeasured, errNoFabric)
	}
	answer, err := p.cfg.Bus.Request(ctx, subject(node), nil)
	if err != nil {
		return cluster.Link{}, fmt.Errorf("%w: %w", errNotMeasured, err)
	}
	there, err := readOffer(answer)
	if err != nil {
		return cluster.Link{}, err
	}
	agent, err := p.own.open()
	if err != nil {
		return cluster.Link{}, err
	}
	remote, err := agent.Load(there.Metadata)
	if err != nil {
		return cluster.Link{}, err
	}
	defer remote.Close()
	theirs, err := remote.Memory(there.Memory)
	if err != nil {
		return cluster.Link{}, err
	}
	here := p.cfg.facts()
	return Probe(ctx, remote, p.own.memory, theirs, Ends{&here, &there.Facts, p.cfg.Largest})
}

// Ends are the facts of both ends of a link.
type Ends struct {
	Here, There *Facts
	Largest     int // bytes; 0 is 64 MiB
}

// Probe measures writes and reads of 64 KiB, 1 MiB and 64 MiB. Writes come first, as they show
// the path.
func Probe(ctx context.Context, remote *nixl.Remote, local *nixl.Memory, theirs nixl.RemoteMemory, ends Ends) (cluster.Link, error) {
	var samples []Sample
	var l cluster.Link
	for _, op := range []nixl.Op{nixl.Write, nixl.Read} {
		for _, step := range probeSizes {
			if ends.Largest > 0 && step.size > ends.Largest || op == nixl.Read && Path(l.Path) == TCP && step.size > maxTCPRead {
				continue
			}
			s, err := Measure(ctx, remote, local, theirs, Job{Op: op, Size: step.size, Count: step.count, Time: probeTimeout})
			if err != nil {
				return l, fmt.Errorf("cannot %s %d bytes: %w", opName(op), step.size, err)
			}
			samples = append(samples, s)
			addSample(&l, &s)
		}
		l.Path = string(InferPath(ends.Here, ends.There, samples))
	}
	l.Slow = Diagnose(ends.Here, ends.There, Path(l.Path), samples)
	return l, nil
}

// addSample adds a sample: the rate of the largest size, the latency of the smallest.
func addSample(l *cluster.Link, s *Sample) {
	rate := &l.Read
	if s.Op == nixl.Write {
		rate = &l.Write
	}
	*rate = s.Best
	if s.Size == probeSizes[0].size && (l.Latency == 0 || s.Latency.Min.Seconds() < l.Latency) {
		l.Latency = s.Latency.Min.Seconds()
	}
}
