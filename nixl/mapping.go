package nixl

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Mapping is memory outside the Go heap that may be shared with other processes: a memfd. It is
// unmapped when it is closed and its last registration has ended.
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
	m := &Mapping{file: os.NewFile(uintptr(fd), name)}
	if err := m.open(size); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot make memfd %q of %d bytes: %w", name, size, err), m.file.Close())
	}
	return m, nil
}

func (m *Mapping) open(size int) (err error) {
	if err := m.file.Truncate(int64(size)); err != nil {
		return err
	}
	// A process with the descriptor could otherwise shrink the memory, and our next touch be a
	// SIGBUS.
	if _, err := unix.FcntlInt(m.file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
		return err
	}
	// Other users can then not open it for writing through /proc. Processes of this user can
	// trace us anyway.
	if err := m.file.Chmod(0o400); err != nil {
		return err
	}
	m.data, err = unix.Mmap(int(m.file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return err
}

// ReadOnly returns a descriptor that allows no writable mapping, for other processes. The caller
// closes it.
func (m *Mapping) ReadOnly() (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", m.file.Fd()))
}

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
