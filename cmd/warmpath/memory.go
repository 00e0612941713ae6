package main

import (
	"os"
	"runtime/debug"

	"github.com/warmpath/warmpath/dataplane/machine"
)

const (
	// memoryShare is the part of the memory, in percent, that the Go heap may take. The rest is for
	// memory that Go does not count: stacks of C, the kernel's socket buffers, the page cache.
	memoryShare = 90
	// maxGCPercent is Go's own default, minGCPercent half of it. Marking an index of 4 million
	// blocks, 145 MB, takes 20 ms on two cores; below half, the collector costs more than the
	// memory is worth, and the limit takes over.
	maxGCPercent, minGCPercent = 100, 50
	// minHeapLimit is room for a router or sidecar without its bounded part.
	minHeapLimit = 128 << 20
	// tierIndexShare is the part of a KV tier's size that its index takes: 102 MiB for 64 GiB.
	tierIndexShare = 640
)

// setMemoryLimit sets the collector's percentage and limit once, at the start of a process. bound
// is the largest size of its long-lived heap, outside is memory that it takes outside the heap. An
// operator's GOGC and GOMEMLIMIT win.
func setMemoryLimit(bound, outside int64) {
	percent, limit := collectorSettings(machine.Memory(), bound, outside)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if os.Getenv("GOMEMLIMIT") == "" && limit > 0 {
		debug.SetMemoryLimit(limit)
	}
}

// collectorSettings returns GOGC and GOMEMLIMIT for a process that may use so much memory, 0 where
// that is unknown. Near the limit the collector works harder instead of letting the kernel end the
// process. However much is outside the heap, the limit has room for twice the bounded heap, because
// the collector of a heap just below its limit never rests. GOGC is the percentage by which the
// full heap may grow within the limit.
func collectorSettings(memory, bound, outside int64) (percent int, limit int64) {
	if memory <= 0 {
		return maxGCPercent, 0
	}
	limit = max((memory-outside)/100*memoryShare, min(2*bound+minHeapLimit, memory/100*memoryShare))
	room := limit - bound
	if bound <= 0 || room >= bound {
		return maxGCPercent, limit
	}
	return max(int(room*100/bound), minGCPercent), limit
}
