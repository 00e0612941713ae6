package radix

import "fmt"

// checkRunLocked panics if the run is inconsistent. Writers call it before they unlock the run.
func checkRunLocked(r *run) {
	if !invariants {
		return
	}
	blocks, v := r.hashes(), r.view.Load()
	if r.holders.count() > 0 && r.dead.Load() {
		violated("run %d is dead and has holders", r.id)
	}
	for slot, h := range r.holders.slots {
		if h == nil {
			continue
		}
		if h.run != r || int(h.slot) != slot {
			violated("run %d slot %d has the holding of run %d slot %d",
				r.id, slot, h.run.id, h.slot)
		}
		if h.blocks <= 0 || h.end() > len(blocks) {
			violated("run %d of %d blocks: worker %d holds %d up to %d",
				r.id, len(blocks), h.worker, h.blocks, h.end())
		}
		if c := v.coverage(slot); c != h.coverage() {
			violated("run %d: worker %d publishes %#x, holds %#x", r.id, h.worker, c, h.coverage())
		}
	}
}

func violated(format string, args ...any) {
	//nolint:forbidigo // only with -tags invariants: the index is broken
	panic(fmt.Sprintf("radix: invariant violated: "+format, args...))
}
