package nixl

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Mapping is memory outside the Go heap that may be shared with other processes: a memfd of
// this process, or a file of another. It is unmapped when it is closed and its last
// registration has ended.
type Mapping struct {
	data []byte
	file *os.File // nil once unmapped

	mu     sync.Mutex
	users  int  // registrations; guarded by mu
	closed bool // guarded by mu
}

// NewMapping makes size bytes of zeros in a memfd; the name appears in /proc/PID/maps. The
// kernel allocates its pages when they are first touched.
func NewMapping(name string, size int) (*Mapping, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("cannot create memfd %q: %w", name, err)
	}
	file := os.NewFile(uintptr(fd), name)
	if err := file.Truncate(int64(size)); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot make memfd %q of %d bytes: %w", name, size, err), file.Close())
	}
	// A receiver of the descriptor that shrank the memfd would kill this process at its next
	// touch.
	if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot seal memfd %q: %w", name, err), file.Close())
	}
	return AdoptFile(file)
}

// AdoptFile maps a whole file, such as a memfd received from another process, and owns it from
// now on. A memfd that its sender could still shrink is refused, since reading beyond its end
// kills the process.
func AdoptFile(file *os.File) (*Mapping, error) {
	fail := func(err error) (*Mapping, error) {
		return nil, errors.Join(fmt.Errorf("cannot map %s: %w", file.Name(), err), file.Close())
	}
	info, err := file.Stat()
	if err != nil {
		return fail(err)
	}
	if info.Size() <= 0 {
		return fail(errEmptyMapping)
	}
	if seals, err := unix.FcntlInt(file.Fd(), unix.F_GET_SEALS, 0); err == nil && seals&unix.F_SEAL_SHRINK == 0 {
		return fail(errUnsealed)
	}
	data, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fail(err)
	}
	return &Mapping{data: data, file: file}, nil
}

var (
	errEmptyMapping = errors.New("it has no bytes")
	errUnsealed     = errors.New("it is not sealed against shrinking (F_SEAL_SHRINK)")
)

// Bytes is the memory. It must not be touched after Close.
func (m *Mapping) Bytes() []byte { return m.data }

// addr is the address of the first byte, by which peers and the library name the memory.
func (m *Mapping) addr() uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(m.data)))) }

// retain adds a registration. It fails on a closed mapping.
func (m *Mapping) retain() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.users++
	return nil
}

// release removes a registration.
func (m *Mapping) release() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.users--
	return m.unmapLocked()
}

// Close unmaps the memory as soon as no registration holds it. Later calls do nothing.
func (m *Mapping) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return m.unmapLocked()
}

func (m *Mapping) unmapLocked() error {
	if !m.closed || m.users > 0 || m.file == nil {
		return nil
	}
	err := errors.Join(unix.Munmap(m.data), m.file.Close())
	m.file = nil
	return err
}
