package nvmltest

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

//go:embed testdata/fake_nvml.c
var source []byte

// ErrNoCompiler is returned by Build where there is no C compiler.
var ErrNoCompiler = errors.New("nvmltest: no cc and no gcc in PATH to build the fake driver with")

// Codes of nvmlReturn_t for a State.
const (
	NotSupported    = 3
	NoPermission    = 4
	DriverNotLoaded = 9
	LibraryMismatch = 18
)

const (
	// stateVariable names the file of the state for the fake.
	stateVariable = "WARMPATH_NVMLTEST_STATE"
	xidEvent      = 8          // nvmlEventTypeXidCriticalError
	noInstance    = 0xFFFFFFFF // an event of a whole GPU
)

// Driver is a built fake.
type Driver struct {
	Library string // its path

	mu    sync.Mutex
	file  *os.File // guarded by mu, as all below
	state State
	head  rawHead
	epoch uint64
}

// Option selects a variant of the fake.
type Option func(*options)

type options struct {
	flags   []string
	without []string
}

// required are the functions that make a library NVML.
const required = "nvmlInit_v2; nvmlShutdown; nvmlErrorString; nvmlDeviceGetCount_v2; " +
	"nvmlDeviceGetHandleByIndex_v2; "

// Without omits functions, as an older driver does. A name may end in *, which keeps the
// functions that every driver has.
func Without(symbols ...string) Option {
	return func(o *options) { o.without = append(o.without, symbols...) }
}

// Flags are passed to the compiler: -DNOT_NVML omits nvmlInit_v2, -DFABRIC_V2 has only the
// second version of fabric information.
func Flags(flags ...string) Option {
	return func(o *options) { o.flags = append(o.flags, flags...) }
}

// Build compiles the fake into dir and sets an empty state.
func Build(dir string, opts ...Option) (*Driver, error) {
	compiler, err := exec.LookPath("cc")
	if err != nil {
		if compiler, err = exec.LookPath("gcc"); err != nil {
			return nil, ErrNoCompiler
		}
	}
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	d := &Driver{Library: filepath.Join(dir, "libnvidia-ml.so.1")}
	from := filepath.Join(dir, "fake_nvml.c")
	if err := os.WriteFile(from, source, 0o600); err != nil {
		return nil, err
	}
	args := append([]string{"-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", d.Library, from}, o.flags...)
	if len(o.without) > 0 {
		script := filepath.Join(dir, "symbols")
		text := "{ global: " + required + "local: " + strings.Join(o.without, "; ") + "; };\n"
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			return nil, err
		}
		args = append(args, "-Wl,--version-script="+script)
	}
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cannot build the fake driver: %w\n%s", err, out)
	}
	return d, d.open()
}

// open points the library at this driver from its next initialization on, and sets an empty
// state.
func (d *Driver) open() error {
	path := filepath.Join(filepath.Dir(d.Library), "state")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	d.file = file
	// The loader keeps the first library of a process, so the path of the state cannot be
	// compiled in. With cgo, Setenv changes C's environment too.
	if err := os.Setenv(stateVariable, path); err != nil {
		return fmt.Errorf("cannot name the state: %w", err)
	}
	return d.Set(State{})
}

// Set replaces the state.
func (d *Driver) Set(s State) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state = s
	return d.writeLocked()
}

// Update changes a part of the state.
func (d *Driver) Update(change func(*State)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(&d.state)
	return d.writeLocked()
}

// Reload acts as a reload of the driver: every call fails until the library is initialized
// again.
func (d *Driver) Reload() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.epoch++
	return d.writeLocked()
}

// XID makes a GPU report an error.
func (d *Driver) XID(gpu, code int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.head.Events[d.head.Head%maxEvents] = rawEvent{uint64(gpu), xidEvent, uint64(code), noInstance}
	d.head.Head++
	return d.writeLocked()
}

// Calls counts the calls into the library so far.
func (d *Driver) Calls() (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var raw [8]byte
	_, err := d.file.ReadAt(raw[:], callsAt)
	return binary.NativeEndian.Uint64(raw[:]), err
}

// Offsets in the file: the sequence number at 0, the library's count of calls, the events, the
// state.
const (
	callsAt = 8
	headAt  = 16
	stateAt = headAt + 8 + maxEvents*32
)

// writeLocked writes under an odd sequence number, at which the library waits.
func (d *Driver) writeLocked() error {
	state, err := d.state.encode(d.epoch)
	if err != nil {
		return err
	}
	var head bytes.Buffer
	if err := binary.Write(&head, binary.NativeEndian, &d.head); err != nil {
		return err
	}
	d.head.Seq += 2
	write := func(at int64, data []byte) {
		if err == nil {
			_, err = d.file.WriteAt(data, at)
		}
	}
	seq := func(n uint64) { write(0, binary.NativeEndian.AppendUint64(nil, n)) }
	seq(d.head.Seq - 1)
	write(headAt, head.Bytes()[headAt:])
	write(stateAt, state)
	seq(d.head.Seq)
	return err
}
