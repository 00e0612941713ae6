package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/dataplane/sidecar/link"
	"github.com/warmpath/warmpath/nixl"
)

// nixlOptions are the flags of warmpath bench nixl.
type nixlOptions struct {
	library  string
	backend  string
	peer     bool   // this process is the other end
	largest  string // size of the largest transfer
	bytes    int    // the same
	batch    int
	time     time.Duration
	jsonFile string
	pages    bool
}

func newBenchNIXLCommand() *cobra.Command {
	o := &nixlOptions{}
	c := &cobra.Command{
		Use:   "nixl",
		Short: "Measure NIXL between two processes beside memcpy, process_vm_readv and TCP",
		Long: `Nixl starts a second process and moves memory between the two, by NIXL and by the plain ways
beside it. The ways take turns, so that each meets the load that the others meet; the shares of
process_vm_readv are medians over the rounds of what both took in the same one. GB/s is of all
transfers, best of the fastest one; the other columns are those of nixlbench. Over CMA (two
processes of one machine and user) one process copies, as process_vm_readv does; UCX_TLS=tcp in
the environment shows what is left without it.

Pages moves the largest size as pages of 4 KiB: neighbours on both sides, given in any order
(they are merged); then scattered on one side, and on both. process_vm_readv moves the scattered
ones too, 1,024 at a time, which is what the kernel takes.`,
		Example: `  warmpath bench nixl
  UCX_TLS=tcp warmpath bench nixl --json out.json
  warmpath bench nixl --nixl-lib /opt/venv/lib/python3.11/site-packages/.nixl_cu12.mesonpy.libs/libnixl_capi.so`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			if o.peer {
				return o.serve(cmd)
			}
			return o.run(cmd)
		},
	}
	f := c.Flags()
	f.StringVar(&o.library, "nixl-lib", "", "libnixl_capi.so (default: "+nixl.EnvLibrary+", an installed wheel, the system's)")
	f.StringVar(&o.backend, "backend", "UCX", "plugin of NIXL")
	f.IntVar(&o.batch, "batch", 1, "transfers at a time")
	f.DurationVar(&o.time, "time", 500*time.Millisecond, "time for each size and way")
	f.StringVar(&o.largest, "largest", "64MiB", "size of the largest transfer")
	f.BoolVar(&o.pages, "pages", true, "move pages of 4 KiB too")
	f.StringVar(&o.jsonFile, "json", "", "also write the result to this file as JSON")
	f.BoolVar(&o.peer, "peer", false, "be the second process")
	_ = f.MarkHidden("peer")
	return c
}

var errNIXLOptions = errors.New("bad settings of the measurement")

func (o *nixlOptions) check() error {
	bytes, err := parseBytes(o.largest)
	if err != nil {
		return fmt.Errorf("cannot use --largest: %w", err)
	}
	if o.batch < 1 || o.time <= 0 || bytes < pageSize || bytes > 16<<30 || bytes%pageSize != 0 {
		return fmt.Errorf("%w: %d transfers of %s at a time for %v: give at least one, a size from 4KiB to 16GiB in whole pages of 4 KiB, and a time",
			errNIXLOptions, o.batch, o.largest, o.time)
	}
	o.bytes = int(bytes)
	return nil
}

// nixlRow is one way of moving bytes at one size.
type nixlRow struct {
	Way    string `json:"way"`
	Pieces int    `json:"pieces,omitempty"` // number of pieces
	// Median over the rounds: time of process_vm_readv / time of this way.
	Share float64 `json:"share,omitempty"`
	link.Sample
}

// nixlResult holds all rows and their conditions.
type nixlResult struct {
	Library  string     `json:"library"`
	Path     link.Path  `json:"path"`
	Facts    link.Facts `json:"facts"`
	Loopback bool       `json:"loopback"` // UCX was kept on the loopback interface
	Rows     []nixlRow  `json:"rows"`
	Load     string     `json:"load"` // of the machine, before the first round the first round
}

const pageSize = 4096

// open makes an agent with memory, as both processes have one.
func (o *nixlOptions) open(f nixl.Fabric, name string) (*nixl.Agent, *nixl.Memory, error) {
	agent, err := nixl.NewAgent(f, nixl.Config{Name: name, Backend: o.backend, MaxBytes: 1 << 30})
	if err != nil {
		return nil, nil, err
	}
	mapping, err := nixl.NewMapping(name, o.bytes*o.batch)
	if err != nil {
		return nil, nil, errors.Join(err, agent.Close())
	}
	for i := 0; i < len(mapping.Bytes()); i += pageSize {
		// Touched: the kernel makes no page during a measurement.
		mapping.Bytes()[i] = byte(i / pageSize)
	}
	memory, err := agent.Register(mapping)
	if err != nil {
		return nil, nil, errors.Join(err, mapping.Close(), agent.Close())
	}
	return agent, memory, mapping.Close() // the registration keeps the memory
}

// load finds the library; left reports that UCX chooses its devices itself.
func (o *nixlOptions) load() (lib *nixl.Library, left bool, err error) {
	if left, err = nixl.StayOnLoopback(); err != nil {
		return nil, left, err
	}
	lib, err = nixl.Open(o.library)
	return lib, left, err
}

func (o *nixlOptions) run(cmd *cobra.Command) error {
	cmd.SilenceUsage = true
	progress := func(step string) { fmt.Fprintln(cmd.ErrOrStderr(), step) }
	progress("starting the second process")
	lib, left, err := o.load()
	if err != nil {
		return err
	}
	agent, memory, err := o.open(lib, "warmpath-bench")
	if err != nil {
		return err
	}
	defer func() { _ = agent.Close() }() // the process ends next
	ctx, stop := context.WithTimeout(cmd.Context(), 10*time.Minute)
	defer stop()
	far, err := o.startPeer(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = far.end() }() // its exit status means nothing here
	remote, err := agent.Load(far.Metadata)
	if err != nil {
		return err
	}
	r := &nixlResult{Library: lib.Path(), Facts: link.ReadFacts("/", "here"), Loopback: !left, Load: loadAverage()}
	b := nixlBench{o: o, ctx: ctx, result: r, remote: remote, memory: memory, far: far, progress: progress}
	if err := b.all(); err != nil {
		return err
	}
	return errors.Join(writeNIXL(cmd.OutOrStdout(), r), writeJSON(o.jsonFile, r))
}

func loadAverage() string {
	data, _ := os.ReadFile("/proc/loadavg") // Linux only
	return string(data)
}
