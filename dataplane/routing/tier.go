package routing

import (
	"sync/atomic"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// tier orders ranks by how well they are fit: 0 is well, and each bit is something that speaks against a rank, the higher the more. Those
// of the best tier that there is are candidates, so that nobody is left out by whatever is wrong with all.
type tier uint8

const (
	tierReady tier = 0
	// By the facts about its GPUs: it should compute nothing on several of them, or take nothing new. It answers, so it comes before one
	// that hangs.
	tierNoTP     tier = 1 << 0
	tierDraining tier = 1 << 1
	tierSlow     tier = 1 << 2 // by its probes: a slow answer beats none
	// Dead by facts, and yet it answers its probes and its requests: one of both is wrong.
	tierDead tier = 1 << 3
	tierOpen tier = 1 << 4 // its breaker is open: the chance of an answer beats none
	tierNone tier = 1<<8 - 1

	tierFacts = tierNoTP | tierDraining | tierDead
)

// tierOf says how fit a worker is now.
func (s *Scratch) tierOf(w *worker.Worker, info *worker.Info) tier {
	t := tierReady
	switch w.State() {
	case worker.Ready:
	case worker.Slow:
		t = tierSlow
	default:
		return tierNone
	}
	if !w.Breaker.Closed() && !w.Breaker.Lets(s.nanos) {
		t |= tierOpen
	}
	if v := w.Verdict(s.nanos); v != 0 {
		s.judged = true
		t |= tierOfFacts(v, info)
	}
	return t
}

// tierOfFacts is the part of a tier that the facts about GPUs make.
func tierOfFacts(v worker.Verdict, info *worker.Info) (t tier) {
	switch v.State() {
	case worker.GPUDead:
		t = tierDead
	case worker.GPUDraining:
		t = tierDraining
	}
	if v.NoTP() && info.TPSize > 1 {
		t |= tierNoTP
	}
	return t
}

// Against is what the facts about GPUs hold against a rank.
type Against uint8

// What they may hold against it, the worst last.
const (
	AgainstNothing Against = iota // or nothing that leaves it out
	AgainstTP                     // it computes on several GPUs, which it should not
	AgainstNewWork                // it should be drained
	AgainstAllWork                // it is dead
)

// String names it as metrics do, "" for AgainstNothing.
func (a Against) String() string { return [...]string{"", "no_tp", "draining", "dead"}[a] }

// against is the worst of a tier's facts.
func (t tier) against() Against {
	switch {
	case t&tierDead != 0:
		return AgainstAllWork
	case t&tierDraining != 0:
		return AgainstNewWork
	case t&tierNoTP != 0:
		return AgainstTP
	}
	return AgainstNothing
}

// passed counts the ranks of one choice against which facts speak.
type passed struct{ dead, draining, noTP uint32 }

func (p *passed) note(t tier) {
	switch t.against() {
	case AgainstAllWork:
		p.dead++
	case AgainstNewWork:
		p.draining++
	case AgainstTP:
		p.noTP++
	}
}

// Passed counts what the facts about GPUs have done to choices.
type Passed struct {
	Dead, Draining, NoTP atomic.Uint64 // ranks that were left out of a choice, for the worst that was said of them
	Overruled            atomic.Uint64 // choices from which facts would have left out every rank: the least bad ones were used
}

// take adds what a choice left out.
func (p *Passed) take(s *Scratch, d *Decision) {
	if s.passed == (passed{}) {
		return
	}
	if d.Overruled != AgainstNothing {
		p.Overruled.Add(1) // and some of those that were noted were used
		return
	}
	p.Dead.Add(uint64(s.passed.dead))
	p.Draining.Add(uint64(s.passed.draining))
	p.NoTP.Add(uint64(s.passed.noTP))
}

// overruled says which facts were not heeded because they would have left nobody.
func (s *Scratch) overruled(d *Decision) Against {
	if s.passed == (passed{}) {
		return AgainstNothing
	}
	t := s.groups[d.Rank.Worker.Role()].tier
	if d.Decode != nil {
		t |= s.groups[worker.RoleDecode].tier
	}
	return t.against()
}
