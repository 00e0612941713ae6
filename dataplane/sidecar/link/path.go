package link

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/nixl"
)

// Path is how bytes go between two processes. The values are those of cluster.Link.
type Path string

// The paths, fastest first.
const (
	RDMA    Path = "rdma"
	Shared  Path = "shm"
	CMA     Path = "cma" // process_vm_readv: one process copies, the other does nothing
	TCP     Path = "tcp"
	Unknown Path = "unknown"
)

const (
	// inCall is the share of a transfer that the posting call took, above which the caller's own thread has copied. Over CMA and shared memory it
	// is above 0.95, over TCP below 0.15 for 1 MiB and below 0.05 for 64 MiB.
	inCall = 0.6
	// sharedLatency parts shared memory (0.8 µs, measured) from CMA (one system call and its way, 1.5 to 23 µs) for 64 bytes, where the system call is not allowed.
	sharedLatency = 3 * time.Microsecond
	// rdmaRate is above what one TCP connection of UCX moves (2.8 GB/s on loopback), and below what an adapter of 100 Gb/s does (12 GB/s).
	rdmaRate = 6e9
)

// Recognise tells the path from what was measured, the facts of both ends breaking ties. UCX does not say which one it took.
func Recognise(here, there *Facts, samples []Sample) Path {
	small, large := smallest(samples), largest(samples)
	if large == nil {
		return Unknown
	}
	if here.Boot == there.Boot {
		switch {
		case small.Size <= 4096 && small.Post.Min < here.sharedLimit() && copiedInCall(samples):
			return Shared
		case apart(here, there) || !copiedInCall(samples):
			return TCP
		default:
			return CMA
		}
	}
	if len(here.Devices) == 0 || len(there.Devices) == 0 || here.excludes("rc", "dc", "ud", "ib", "srd") || there.excludes("rc", "dc", "ud", "ib", "srd") {
		return TCP
	}
	if large.Size < 1<<20 {
		return Unknown
	}
	if large.Best >= min(rdmaRate, 0.3*min(here.deviceRate(), there.deviceRate())) {
		return RDMA
	}
	return TCP
}

// apart reports whether CMA cannot be, whatever the times look like: the kernel of a machine whose cores are all busy delivers what is sent over loopback
// within the call that sends it (measured: in half of all tries between two users).
func apart(here, there *Facts) bool {
	from, to := places(here, there)
	refused := here.Ids != nil && here.SystemRead == 0 // as container runtimes do whose filter leaves the call out
	return refused || len(from.ReadDenials(&to)) > 0 || !nixl.AllowsCMA(here.Transports) || !nixl.AllowsCMA(there.Transports)
}

// copiedInCall judges the size of at least 1 MiB that was moved most often, else the largest, by the least times of both: those that nothing
// else of a busy machine has stretched.
func copiedInCall(samples []Sample) bool {
	surest := largest(samples)
	for i := range samples {
		if s := &samples[i]; s.Size >= 1<<20 && s.Count > surest.Count {
			surest = s
		}
	}
	return float64(surest.Post.Min) >= inCall*float64(surest.Transfer.Min)
}

// sharedLimit is below what CMA takes for a few bytes, and above what shared memory does.
func (f *Facts) sharedLimit() time.Duration {
	if f.SystemRead > 0 {
		return f.SystemRead
	}
	return sharedLatency
}

func smallest(samples []Sample) *Sample { return pick(samples, func(a, b int) bool { return a < b }) }

func largest(samples []Sample) *Sample { return pick(samples, func(a, b int) bool { return a > b }) }

func pick(samples []Sample, better func(a, b int) bool) *Sample {
	var found *Sample
	for i := range samples {
		if found == nil || better(samples[i].Size, found.Size) {
			found = &samples[i]
		}
	}
	return found
}

// Judge says in words why a link is slower than its machines should make it; "" where it is not.
func Judge(here, there *Facts, path Path, samples []Sample) string {
	var why []string
	switch {
	case path != TCP:
	case here.Boot == there.Boot:
		why = append(localCauses(here, there), "the same machine, but over TCP")
	case len(here.Devices) == 0 && len(there.Devices) == 0:
		return "TCP is all there is: neither node has an RDMA device"
	case len(here.Devices) == 0 || len(there.Devices) == 0:
		return fmt.Sprintf("TCP, since %s has no RDMA device", bare(here, there))
	default:
		why = append(remoteCauses(here, there), "both nodes have RDMA devices, but bytes go over TCP")
	}
	if expected := Expected(here, there, path); len(why) == 0 && expected > 0 {
		if large := largest(samples); large != nil && large.Size >= 1<<20 && large.Best < expected/4 {
			why = append(why, fmt.Sprintf("%.1f GB/s, where %.0f could be", large.Best/1e9, expected/1e9))
		}
	}
	why = slices.Compact(why) // both ends may have the same cause
	last := len(why) - 1
	if last < 0 {
		return ""
	}
	if last == 0 {
		return why[0]
	}
	return why[last] + ": " + strings.Join(why[:last], "; ")
}

// bare names the node that has no device.
func bare(here, there *Facts) string {
	if len(here.Devices) == 0 {
		return here.Node
	}
	return there.Node
}

// localCauses are the usual reasons for TCP between processes of one machine.
func localCauses(here, there *Facts) []string {
	from, to := places(here, there)
	why := from.ReadDenials(&to)
	for _, f := range []*Facts{here, there} {
		if !nixl.AllowsCMA(f.Transports) {
			why = append(why, fmt.Sprintf("UCX_TLS=%s of %s leaves shared memory and cma out", f.Transports, f.Node))
		}
	}
	for _, f := range []*Facts{here, there} {
		if f.Ids != nil && f.SystemRead == 0 {
			why = append(why, fmt.Sprintf("process_vm_readv is refused on %s, as by a container's seccomp profile; allow it", f.Node))
		}
	}
	if here.Ptrace >= 1 || there.Ptrace >= 1 {
		why = append(why, "kernel.yama.ptrace_scope is not 0; set it to 0, or give CAP_SYS_PTRACE")
	}
	return why
}

// remoteCauses are the usual reasons for TCP between machines with RDMA devices.
func remoteCauses(here, there *Facts) []string {
	var why []string
	for _, f := range []*Facts{here, there} {
		switch {
		case f.excludes("rc", "dc", "ud", "ib", "srd"):
			why = append(why, fmt.Sprintf("UCX_TLS=%s of %s leaves RDMA out", f.Transports, f.Node))
		case f.NetDevices == "":
			why = append(why, fmt.Sprintf("UCX_NET_DEVICES of %s is unset; set it to its RDMA devices: %s", f.Node, f.deviceNames()))
		case !f.namesDevice():
			why = append(why, fmt.Sprintf("UCX_NET_DEVICES=%s of %s names no RDMA device; it has %s", f.NetDevices, f.Node, f.deviceNames()))
		case f.LockedMemory >= 0 && f.LockedMemory < 1<<30:
			why = append(why, fmt.Sprintf("%s may lock only %d MiB of memory; raise it (ulimit -l unlimited)", f.Node, f.LockedMemory>>20))
		}
	}
	return why
}

// Expected is what the hardware should do, in bytes a second; 0 is not known.
func Expected(here, there *Facts, path Path) float64 {
	switch path {
	case RDMA:
		return min(here.deviceRate(), there.deviceRate())
	case TCP:
		if here.Boot != there.Boot {
			return min(here.EthernetRate, there.EthernetRate)
		}
	case CMA, Shared, Unknown:
	}
	return 0
}

// opName is the direction in a word.
func opName(op nixl.Op) string {
	if op == nixl.Write {
		return "write"
	}
	return "read"
}
