package store

import (
	"fmt"
	"hash/fnv"
	"os"

	"github.com/warmpath/warmpath/nixl"
)

// localityOf hashes the machine of this process and all that decides which other processes there
// may read its memory. Processes of equal locality read each other's memory by the kernel's
// cross-memory attach; between others UCX silently takes TCP. 0 is unknown, and equals no
// locality.
func localityOf(p *nixl.ProcessIdentity, transports string) uint64 {
	if !p.Complete() || p.Hidden {
		return 0
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s %s %s %s %x %q", p.Boot, p.PIDNamespace, p.UserNamespace, p.UID, p.GID, p.Capabilities, transports)
	return h.Sum64()
}

// ownLocality returns the locality of this process. It is unknown where the operator has excluded
// cross-memory attach by UCX_TLS.
func ownLocality() uint64 {
	transports := os.Getenv("UCX_TLS")
	if !nixl.AllowsCMA(transports) {
		return 0
	}
	p := nixl.ReadProcessIdentity("/")
	return localityOf(&p, transports)
}

// hasRDMA reports whether the machine has an RDMA device.
func hasRDMA() bool {
	devices, err := os.ReadDir("/sys/class/infiniband")
	return err == nil && len(devices) > 0
}

// nixlReaches reports whether a NIXL read from a peer goes by RDMA or by cross-memory attach.
// Over TCP, UCX has the peer's process do the read, and ends that process when its reader stops
// for a moment; our own TCP is then both safer and as fast.
func nixlReaches(own, peer welcome) bool {
	return own.locality != 0 && own.locality == peer.locality || own.rdma && peer.rdma
}
