package cluster

import (
	"math"
	"slices"
)

// Numbers of a node that change all the time travel in its beats, as a list in the record's
// order: for each GPU the used memory, and the weight and free memory of its health; for each
// worker the weight and free memory; for the tier, if there is one, used bytes and pages. Memory
// is in MiB and weights in ten thousandths: no choice depends on less, and the list of 8 GPUs
// and 8 workers has some 150 bytes.
const (
	factUnit   = 1 << 20
	weightUnit = 1e4
)

// facts returns a node's list.
func (n *Node) facts() []int64 {
	list := make([]int64, 0, 3*len(n.GPUs)+2*len(n.Workers)+2)
	for i := range n.GPUs {
		g := &n.GPUs[i]
		list = append(list, int64(g.Used/factUnit), weightFact(g.Health.Weight), g.Health.Free/factUnit)
	}
	for i := range n.Workers {
		h := &n.Workers[i].Health
		list = append(list, weightFact(h.Weight), h.Free/factUnit)
	}
	if n.Tier != nil {
		list = append(list, n.Tier.Used/factUnit, n.Tier.Pages)
	}
	return list
}

// weightFact never makes zero, which means unknown, of a weight that is not.
func weightFact(w float64) int64 {
	if w <= 0 {
		return 0
	}
	return max(1, int64(math.Round(w*weightUnit)))
}

// setFacts puts a list into a node. It returns false for a list of another shape or with an
// impossible number: then the node is of no use.
func (n *Node) setFacts(list []int64) bool {
	size := 3*len(n.GPUs) + 2*len(n.Workers)
	if n.Tier != nil {
		size += 2
	}
	if len(list) != size || slices.ContainsFunc(list, func(f int64) bool { return f < 0 || f > math.MaxInt64/factUnit }) {
		return false
	}
	possible := true
	weight := func(f int64) float64 {
		possible = possible && f <= weightUnit
		return float64(f) / weightUnit
	}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		g.Used, g.Health.Weight, g.Health.Free = uint64(list[0])*factUnit, weight(list[1]), list[2]*factUnit
		list = list[3:]
	}
	for i := range n.Workers {
		h := &n.Workers[i].Health
		h.Weight, h.Free = weight(list[0]), list[1]*factUnit
		list = list[2:]
	}
	if n.Tier != nil {
		n.Tier.Used, n.Tier.Pages = list[0]*factUnit, list[1]
	}
	return possible
}

// skeleton is a node without these numbers: only changes of the rest are worth a write.
func (n *Node) skeleton() *Node {
	c := n.clone()
	for i := range c.GPUs {
		g := &c.GPUs[i]
		g.Used, g.Health.Weight, g.Health.Free = 0, 0, 0
	}
	for i := range c.Workers {
		h := &c.Workers[i].Health
		h.Weight, h.Free = 0, 0
	}
	if c.Tier != nil {
		c.Tier.Used, c.Tier.Pages = 0, 0
	}
	return c
}
