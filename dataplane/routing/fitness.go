package routing

import (
	"sync/atomic"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// fitness orders ranks by their readiness: 0 is ready, and each bit is a fault, a higher bit a
// worse one. The ranks of the best fitness are candidates, so a fault that all share excludes
// none.
type fitness uint8

const (
	fitReady fitness = 0
	// By facts about its GPUs: it should not compute on several of them, or should drain. It
	// answers, so it comes before a rank that hangs.
	unfitNoTP     fitness = 1 << 0
	unfitDraining fitness = 1 << 1
	unfitSlow     fitness = 1 << 2 // by its probes
	// Dead by facts, although it answers its probes: one of the two is wrong.
	unfitDead    fitness = 1 << 3
	unfitBreaker fitness = 1 << 4 // its breaker is open
	unfitShort   fitness = 1 << 5 // it refuses the prompt as too long for its model
	unfit        fitness = 1<<8 - 1

	unfitGPU = unfitNoTP | unfitDraining | unfitDead
)

// fitnessOf returns the present fitness of a worker.
func (e *Eligible) fitnessOf(w *worker.Worker, info *worker.Info) fitness {
	f := fitReady
	switch w.State() {
	case worker.Ready:
	case worker.Slow:
		f = unfitSlow
	default:
		return unfit
	}
	if !w.Breaker.Closed() && !w.Breaker.Lets(e.now) {
		f |= unfitBreaker
	}
	if v := w.Verdict(e.now); v != nil {
		e.judged = true
		f |= gpuFitness(v, info)
	}
	return f
}

// gpuFitness is the fitness of a worker by the facts about its GPUs.
func gpuFitness(v *worker.Verdict, info *worker.Info) (f fitness) {
	switch v.State {
	case worker.GPUDead:
		f = unfitDead
	case worker.GPUDraining:
		f = unfitDraining
	}
	if v.NoTP && info.TPSize > 1 {
		f |= unfitNoTP
	}
	return f
}

// GPUFault is a fault of a rank by the facts about its GPUs.
type GPUFault uint8

// The faults, the worst last.
const (
	NoGPUFault  GPUFault = iota // or none that excludes the rank
	FaultNoTP                   // it computes on several GPUs, which it should not
	FaultDrains                 // it should be drained
	FaultDead
)

// String returns the label of the fault in metrics, "" for NoGPUFault.
func (f GPUFault) String() string { return [...]string{"", "no_tp", "draining", "dead"}[f] }

// fault returns the worst GPU fault of a fitness.
func (f fitness) fault() GPUFault {
	switch {
	case f&unfitDead != 0:
		return FaultDead
	case f&unfitDraining != 0:
		return FaultDrains
	case f&unfitNoTP != 0:
		return FaultNoTP
	}
	return NoGPUFault
}

// faultCounts counts the ranks of one choice by GPU fault.
type faultCounts struct{ dead, draining, noTP uint32 }

func (c *faultCounts) add(f fitness) {
	switch f.fault() {
	case FaultDead:
		c.dead++
	case FaultDrains:
		c.draining++
	case FaultNoTP:
		c.noTP++
	}
}

// Exclusions counts the effects of facts about GPUs on choices.
type Exclusions struct {
	Dead, Draining, NoTP atomic.Uint64 // ranks excluded from a choice, by their worst fault
	Overruled            atomic.Uint64 // choices among faulty ranks, for lack of others
}

// count adds the exclusions of a choice.
func (x *Exclusions) count(c faultCounts, overruled GPUFault) {
	if c == (faultCounts{}) {
		return
	}
	if overruled != NoGPUFault {
		x.Overruled.Add(1)
		return
	}
	x.Dead.Add(uint64(c.dead))
	x.Draining.Add(uint64(c.draining))
	x.NoTP.Add(uint64(c.noTP))
}

// overruled returns the worst fault of the decision's group, which has no rank without one.
func (e *Eligible) overruled(d *Decision) GPUFault {
	if e.faulty == (faultCounts{}) {
		return NoGPUFault
	}
	f := e.groups[d.Rank.Worker.Role()].fitness
	if d.Decode != nil {
		f |= e.groups[worker.RoleDecode].fitness
	}
	return f.fault()
}
