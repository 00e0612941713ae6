package nvmltest

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed testdata/fake_nvml.c
var source []byte

// ErrNoCompiler is returned by Build where there is no gcc.
var ErrNoCompiler = errors.New("nvmltest: no gcc in PATH")

// Codes of nvmlReturn_t that a State can use.
const (
	DriverNotLoaded = 9
	LibraryMismatch = 18
)

// stateVariable tells the fake where its state stands.
const stateVariable = "WARMPATH_NVMLTEST_STATE"

// Driver is a built fake.
type Driver struct {
	Library string // its path
	state   string
}

// State is what the fake tells from the next call on.
type State struct {
	Init    int    // what nvmlInit returns; 0 is success
	Version string // of the driver; empty reads as "-", as do the names of a GPU
	CUDA    int    // 12080 is CUDA 12.8
	GPUs    []GPU
}

// GPU is one GPU of a State. Memory is in bytes.
type GPU struct {
	UUID, Name            string
	Total, Used, Reserved uint64
	Utilization           int
	Links, LinksDown      int  // of Links, the last LinksDown are down
	Lost                  bool // the GPU has fallen off the bus
}

// Build compiles the fake into dir and sets an empty state. Flags select variants: -DOLD_DRIVER leaves out what drivers
// before 510 lack, -DNOT_NVML leaves out nvmlInit_v2.
func Build(dir string, flags ...string) (*Driver, error) {
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		return nil, ErrNoCompiler
	}
	d := &Driver{Library: filepath.Join(dir, "libnvidia-ml.so.1"), state: filepath.Join(dir, "state")}
	from := filepath.Join(dir, "fake_nvml.c")
	if err := os.WriteFile(from, source, 0o600); err != nil {
		return nil, err
	}
	args := []string{"-shared", "-fPIC", "-Wall", "-Werror", "-o", d.Library, from}
	if out, err := exec.Command(compiler, append(args, flags...)...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cannot build the fake driver: %w\n%s", err, out)
	}
	// The loader keeps the first library of a process, wherever later ones are built: which state it reads must not be
	// built in. With cgo, Setenv reaches C's environment too.
	if err := os.Setenv(stateVariable, d.state); err != nil {
		return nil, fmt.Errorf("cannot name the state: %w", err)
	}
	return d, d.Set(State{})
}

// Set changes what the fake tells.
func (d *Driver) Set(s State) error {
	next := d.state + ".next"
	if err := os.WriteFile(next, []byte(s.text()), 0o600); err != nil {
		return err
	}
	return os.Rename(next, d.state)
}

// text is the state as the fake reads it: one line for the driver, one a GPU, fields separated by tabs.
func (s State) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d\t%d\t%d\t%s\n", s.Init, len(s.GPUs), s.CUDA, cmp.Or(s.Version, "-"))
	for _, g := range s.GPUs {
		lost := 0
		if g.Lost {
			lost = 1
		}
		fmt.Fprintf(&b, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n",
			lost, g.Total, g.Used, g.Reserved, g.Utilization, g.Links, g.LinksDown, cmp.Or(g.UUID, "-"), cmp.Or(g.Name, "-"))
	}
	return b.String()
}
