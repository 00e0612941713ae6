package link

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/nixl"
)

// Path is the transport between two processes, as in cluster.Link.
type Path string

// The paths, fastest first.
const (
	RDMA    Path = "rdma"
	Shared  Path = "shm"
	CMA     Path = "cma" // process_vm_readv: one process copies, the other is passive
	TCP     Path = "tcp"
	Unknown Path = "unknown"
)

const (
	// copyShare is the share of the posting call in a transfer, above which the caller's thread
	// has copied. It is above 0.95 over CMA and shared memory; over TCP below 0.15 for 1 MiB and
	// below 0.05 for 64 MiB.
	copyShare = 0.6
	// sharedLatency separates shared memory (0.8 µs, measured) from CMA (1.5 to 23 µs) for 64
	// bytes, where the system call of CMA cannot be measured.
	sharedLatency = 3 * time.Microsecond
	// rdmaRate lies between one TCP connection of UCX (2.8 GB/s on loopback) and an adapter of
	// 100 Gb/s (12 GB/s).
	rdmaRate = 6e9
)

// InferPath infers the path from measurements; the facts of both ends break ties. UCX does not
// tell it.
func InferPath(here, there *Facts, samples []Sample) Path {
	if len(samples) == 0 {
		return Unknown
	}
	small, large := slices.MinFunc(samples, bySize), slices.MaxFunc(samples, bySize)
	if here.Identity.Boot == there.Identity.Boot {
		switch {
		case small.Size <= 4096 && small.Post.Min < cmp.Or(here.SystemRead, sharedLatency) && copiedInCall(samples):
			return Shared
		case cmaImpossible(here, there) || !copiedInCall(samples):
			return TCP
		default:
			return CMA
		}
	}
	if len(here.Devices) == 0 || len(there.Devices) == 0 || here.excludesRDMA() || there.excludesRDMA() {
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

// cmaImpossible reports whether facts exclude CMA. Times alone mislead: on a machine whose cores
// are all busy, the kernel delivers loopback packets within the sending call (in half of all
// tries between two users).
func cmaImpossible(here, there *Facts) bool {
	refused := here.SystemRead == 0 // by the seccomp filter of a container
	denied := len(here.Identity.ReadDenials(&there.Identity)) > 0
	return refused || denied || !nixl.AllowsCMA(here.Transports) || !nixl.AllowsCMA(there.Transports)
}

// copiedInCall reports whether the posting call copied. It compares least times, which a busy
// machine stretches least, of the most frequent size from 1 MiB on, else of the largest size.
func copiedInCall(samples []Sample) bool {
	surest := slices.MaxFunc(samples, bySize)
	for _, s := range samples {
		if s.Size >= 1<<20 && s.Count > surest.Count {
			surest = s
		}
	}
	return float64(surest.Post.Min) >= copyShare*float64(surest.Transfer.Min)
}

func bySize(a, b Sample) int { return cmp.Compare(a.Size, b.Size) }

// Diagnose explains a link that is slower than its machines allow; "" for others.
func Diagnose(here, there *Facts, path Path, samples []Sample) string {
	var causes []string
	switch {
	case path != TCP:
	case here.Identity.Boot == there.Identity.Boot:
		causes = append(localCauses(here, there), "the same machine, but over TCP")
	case len(here.Devices) == 0 && len(there.Devices) == 0:
		return "TCP is all there is: neither node has an RDMA device"
	case len(here.Devices) == 0 || len(there.Devices) == 0:
		return fmt.Sprintf("TCP, since %s has no RDMA device", withoutRDMA(here, there))
	default:
		causes = append(remoteCauses(here, there), "both nodes have RDMA devices, but bytes go over TCP")
	}
	if expected := Expected(here, there, path); len(causes) == 0 && expected > 0 && len(samples) > 0 {
		if large := slices.MaxFunc(samples, bySize); large.Size >= 1<<20 && large.Best < expected/4 {
			causes = append(causes, fmt.Sprintf("%.1f GB/s, where %.0f could be", large.Best/1e9, expected/1e9))
		}
	}
	causes = slices.Compact(causes) // both ends may have the same cause
	last := len(causes) - 1
	if last < 0 {
		return ""
	}
	if last == 0 {
		return causes[0]
	}
	return causes[last] + ": " + strings.Join(causes[:last], "; ")
}

// withoutRDMA returns the node without RDMA device.
func withoutRDMA(here, there *Facts) string {
	if len(here.Devices) == 0 {
		return here.Node
	}
	return there.Node
}

// localCauses returns the usual reasons for TCP between processes of one machine.
func localCauses(here, there *Facts) []string {
	causes := here.Identity.ReadDenials(&there.Identity)
	for _, f := range []*Facts{here, there} {
		if !nixl.AllowsCMA(f.Transports) {
			causes = append(causes, fmt.Sprintf("UCX_TLS=%s of %s leaves shared memory and cma out", f.Transports, f.Node))
		}
	}
	for _, f := range []*Facts{here, there} {
		if f.SystemRead == 0 {
			causes = append(causes, fmt.Sprintf("process_vm_readv is refused on %s, as by a container's seccomp profile; allow it", f.Node))
		}
	}
	if here.Ptrace >= 1 || there.Ptrace >= 1 {
		causes = append(causes, "kernel.yama.ptrace_scope is not 0; set it to 0, or give CAP_SYS_PTRACE")
	}
	return causes
}

// remoteCauses returns the usual reasons for TCP between machines with RDMA devices.
func remoteCauses(here, there *Facts) []string {
	var causes []string
	for _, f := range []*Facts{here, there} {
		switch {
		case f.excludesRDMA():
			causes = append(causes, fmt.Sprintf("UCX_TLS=%s of %s leaves RDMA out", f.Transports, f.Node))
		case f.NetDevices == "":
			causes = append(causes, fmt.Sprintf("UCX_NET_DEVICES of %s is unset; set it to its RDMA devices: %s", f.Node, f.deviceNames()))
		case !f.namesDevice():
			causes = append(causes, fmt.Sprintf("UCX_NET_DEVICES=%s of %s names no RDMA device; it has %s", f.NetDevices, f.Node, f.deviceNames()))
		case f.LockedMemory >= 0 && f.LockedMemory < 1<<30:
			causes = append(causes, fmt.Sprintf("%s may lock only %d MiB of memory; raise it (ulimit -l unlimited)", f.Node, f.LockedMemory>>20))
		}
	}
	return causes
}

// Expected returns the throughput of the hardware in bytes a second; 0 is unknown.
func Expected(here, there *Facts, path Path) float64 {
	switch path {
	case RDMA:
		return min(here.deviceRate(), there.deviceRate())
	case TCP:
		if here.Identity.Boot != there.Identity.Boot {
			return min(here.EthernetRate, there.EthernetRate)
		}
	case CMA, Shared, Unknown:
	}
	return 0
}

// opName names a direction.
func opName(op nixl.Op) string {
	if op == nixl.Write {
		return "write"
	}
	return "read"
}
