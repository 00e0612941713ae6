package router

import (
	"math"
	"os"
	"runtime/debug"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/radix/hugepage"
)

const (
	// gcPercent is how much a large heap may grow over what is in use before the collector runs, in percent; a small one may gcHeadroom.
	// Marking an index of 4 million blocks, 145 MB, takes 20 ms on two cores, which at half of Go's default of 100 is still rare.
	gcPercent = 50
	// limitShare is the part of the memory there is, in percent, from which on the collector works harder rather than let the kernel end
	// the process. The rest is for what Go does not count: stacks of C, pages of files, the kernel's buffers.
	limitShare = 90
	// keptBody is the largest body whose memory a connection keeps for its next one: without a bound it is MaxBodyBytes, 64 MiB. Much
	// lower is dearer for those who send such bodies: four clients with 8 MB each in turn peaked at 141 MB and took 16 ms of CPU a
	// request with 256 KiB, at 93 MB and 12 ms when the memory was kept, since the collector is slower than they are.
	keptBody = 16 << 20
)

// tuneRuntime sets what is the same for the whole process, and leaves alone what the operator has set by GOGC and GOMEMLIMIT.
//
// Left as they are, on purpose: GOMAXPROCS, which Go takes from the CPUs that the process may use and from its control group's limit, and
// follows when that changes; and profile-guided optimization, which made requests 0 to 4 % cheaper (pairs in alternation, 300 B
// to 64 KB), less than a profile that must be kept true is worth.
func tuneRuntime() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
		headroom{set: gcPercent}.watch()
	}
	// Once: a limit that is set counts as memory that there is.
	if os.Getenv("GOMEMLIMIT") == "" && debug.SetMemoryLimit(-1) == math.MaxInt64 {
		if memory := hugepage.Memory(); memory > 0 {
			debug.SetMemoryLimit(memory / 100 * limitShare)
		}
	}
	fasthttp.SetBodySizePoolLimit(keptBody, keptBody)
}
