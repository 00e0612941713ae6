package store

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	minSlab = 64 << 10
	maxSlab = 64 << 20 // Holds one page of 64 tokens of a 70B model without tensor parallelism (21 MB).
	// slabsWanted is how many slabs an arena has at least: fewer make one size of page starve another.
	slabsWanted = 64
	slotAlign   = 64 // A cache line: pages of odd sizes do not share one.
)

// arena is the memory of a tier: one memfd, mapped once, cut into slabs of one size. It knows nothing of pages.
//
// The memory comes from the kernel page by page as it is first written, and is never on Go's heap.
type arena struct {
	data []byte   // the whole mapping, read-write
	file *os.File // the memfd, read-write; NIXL registers the mapping
	ro   *os.File // the same memory through a descriptor that allows no writable mapping: for engines
	slab int64    // bytes
}

// newArena maps bytes of memory, rounded up to whole slabs.
func newArena(bytes int64) (*arena, error) {
	slab := int64(minSlab)
	for slab < maxSlab && slab*2*slabsWanted <= bytes {
		slab *= 2
	}
	bytes = (bytes + slab - 1) / slab * slab
	fd, err := unix.MemfdCreate("warmpath-kv-tier", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("cannot create the tier's memory: %w", err)
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
		return fmt.Errorf("cannot give the tier %d bytes: %w", bytes, err)
	}
	// Who has a descriptor of it must not be able to take pages away under our feet: that is a SIGBUS.
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
		return fmt.Errorf("cannot seal the tier's memory: %w", err)
	}
	// Others can then not open it for writing through /proc either. The owner's other processes can, as they can anything of ours.
	if err := unix.Fchmod(fd, 0o400); err != nil {
		return fmt.Errorf("cannot protect the tier's memory: %w", err)
	}
	ro, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("cannot open the tier's memory for readers: %w", err)
	}
	a.ro = ro
	a.data, err = unix.Mmap(fd, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("cannot map the tier's %d bytes: %w", bytes, err)
	}
	return nil
}

// slabs is how many slabs there are.
func (a *arena) slabs() int { return int(int64(len(a.data)) / a.slab) }

// at is the memory of n bytes from an offset.
func (a *arena) at(offset int64, n int) []byte {
	return a.data[offset : offset+int64(n) : offset+int64(n)]
}

// close unmaps the memory. Nobody may hold a slice of it.
func (a *arena) close() {
	if a.data != nil {
		_ = unix.Munmap(a.data) // Fails for arguments only, and these are mmap's own.
		a.data = nil
	}
	a.file.Close()
	if a.ro != nil {
		a.ro.Close()
	}
}
