package radix

import "fmt"

// checkLocked panics if the run is not sound. It is called where a writer is about to unlock it.
func (r *run) checkLocked() {
	if !invariants {
		return
	}
	blocks := r.hashes()
	if len(r.holds)-len(r.spare) > 0 && r.dead.Load() {
		violated("run %d is dead and held", r.id)
	}
	for slot, h := range r.holds {
		if h == nil {
			continue
		}
		if h.run != r || int(h.slot) != slot {
			violated("run %d slot %d has the hold of run %d slot %d", r.id, slot, h.run.id, h.slot)
		}
		if h.live <= 0 || h.top() > len(blocks) {
			violated("run %d of %d blocks: worker %d holds %d up to %d", r.id, len(blocks), h.worker, h.live, h.top())
		}
		if v := r.leadLocked(slot); v != h.lead() {
			violated("run %d: worker %d publishes %#x, holds %#x", r.id, h.worker, v, h.lead())
		}
	}
}

func violated(format string, args ...any) {
	panic(fmt.Sprintf("radix: invariant violated: "+format, args...)) //nolint:forbidigo // only with -tags invariants: the index is broken
}
