package store

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	minSlab = 64 << 10
	// Holds one page of 64 tokens of a 70B model without tensor parallelism (21 MB).
	maxSlab = 64 << 20
	// minSlabs is the least number of slabs of an arena: with fewer, one page size starves another.
	minSlabs  = 64
	slotAlign = 64 // a cache line, so that pages of any size do not share one
)

// arena is the memory of a store: one memfd, mapped once, cut into slabs of one size. The kernel
// provides it page by page on first write; it is never on Go's heap.
type arena struct {
	data []byte   // the whole mapping, read-write
	file *os.File // the memfd, read-write; NIXL registers it
	ro   *os.File // a descriptor that allows no writable mapping, for engines
	slab int64    // bytes
}

// newArena maps memory, rounded up to whole slabs.
func newArena(bytes int64) (*arena, error) {
	slab := int64(minSlab)
	for slab < maxSlab && slab*2*minSlabs <= bytes {
		slab *= 2
	}
	bytes = (bytes + slab - 1) / slab * slab
	fd, err := unix.MemfdCreate("warmpath-kv-tier", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("cannot create the KV tier's memory: %w", err)
	}
	a := &arena{file: os.NewFile(uintptr(fd), "warmpath-kv-tier"), slab: slab}
	if err := a.open(bytes); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func (a *arena) open(bytes int64) error {
	fd := int(a.file.Fd())
	if err := unix.Ftruncate(fd, bytes); err != nil {
		return fmt.Errorf("cannot give the KV tier %d bytes: %w", bytes, err)
	}
	// A process with a descriptor could otherwise shrink the memory, and our next access be a
	// SIGBUS.
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
		return fmt.Errorf("cannot seal the KV tier's memory: %w", err)
	}
	// Other users can then not open it for writing through /proc. Processes of this user can
	// trace us anyway.
	if err := unix.Fchmod(fd, 0o400); err != nil {
		return fmt.Errorf("cannot protect the KV tier's memory: %w", err)
	}
	ro, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("cannot open the KV tier's memory for readers: %w", err)
	}
	a.ro = ro
	a.data, err = unix.Mmap(fd, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("cannot map the KV tier's %d bytes: %w", bytes, err)
	}
	return nil
}

// slabs returns the number of slabs.
func (a *arena) slabs() int { return int(int64(len(a.data)) / a.slab) }

// at returns n bytes from an offset on.
func (a *arena) at(offset int64, n int) []byte {
	return a.data[offset : offset+int64(n) : offset+int64(n)]
}

// close unmaps the memory. No slice of it may be in use.
func (a *arena) close() {
	if a.data != nil {
		_ = unix.Munmap(a.data) // fails only for bad arguments
		a.data = nil
	}
	a.file.Close()
	if a.ro != nil {
		a.ro.Close()
	}
}
