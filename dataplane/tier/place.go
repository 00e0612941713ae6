package tier

import (
	"fmt"
	"hash/fnv"
	"os"
)

// placeOf names the machine, PID namespace and user of this process. Processes of one place read each other's memory by the kernel's
// cross-memory attach; between others UCX silently takes TCP. 0 is unknown, and equal to nothing.
func placeOf() uint64 {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return 0
	}
	pids, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return 0
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s %d", boot, pids, os.Geteuid())
	return h.Sum64()
}

// hasRDMA reports whether the machine has a network adapter that can do RDMA.
func hasRDMA() bool {
	devices, err := os.ReadDir("/sys/class/infiniband")
	return err == nil && len(devices) > 0
}

// nixlReaches reports whether a NIXL read from a peer goes by RDMA or by cross-memory attach. Over TCP UCX has the peer's process do
// the reading, and ends that process when its reader stops for a moment; our own TCP is then both safer and as fast.
func nixlReaches(own, peer peerWelcome) bool {
	return own.place != 0 && own.place == peer.place || own.rdma && peer.rdma
}
