package store

import (
	"fmt"
	"hash/fnv"
	"os"

	"github.com/warmpath/warmpath/nixl"
)

// placeOf names the machine of this process and all that decides which others there may read its memory. Processes of one place read each other's memory by
// the kernel's cross-memory attach; between others UCX silently takes TCP. 0 is unknown, and equal to nothing.
func placeOf(p *nixl.ProcessIdentity, transports string) uint64 {
	if !p.Complete() || p.Hidden {
		return 0
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s %s %s %s %x %q", p.Boot, p.PIDNamespace, p.UserNamespace, p.UID, p.GID, p.Capabilities, transports)
	return h.Sum64()
}

// here is the place of this process. What UCX_TLS leaves out is the operator's word: then nothing is near.
func here() uint64 {
	transports := os.Getenv("UCX_TLS")
	if !nixl.AllowsCMA(transports) {
		return 0
	}
	p := nixl.ReadProcessIdentity("/")
	return placeOf(&p, transports)
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
