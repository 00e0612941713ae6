package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/warmpath/warmpath/dataplane/sidecar/link"
	"github.com/warmpath/warmpath/nixl"
)

// nixlPatience is how long doctor waits for the measurement between two processes; it takes three
// seconds on a machine with nothing else to do.
const nixlPatience = 30 * time.Second

// examineNIXL loads the library, lists its plugins, and moves bytes between this process and
// another one.
func examineNIXL(library string) []finding {
	lib, err := nixl.Open(library)
	if err != nil {
		return []finding{{
			"NIXL", stateMissing, strings.ReplaceAll(err.Error(), "; ", "\n"),
			"routing works without; pip install --no-deps nixl-cu12==1.5.1, or set " + nixl.EnvLibrary,
		}, examineRDMA(link.ReadFacts("/", "this machine"))}
	}
	plugins, err := lib.Plugins()
	if err != nil {
		return []finding{{"NIXL", stateMissing, lib.Path() + ": " + err.Error(), "is $HOME readable? NIXL fails without it"}}
	}
	if len(plugins) == 0 {
		return []finding{{"NIXL", stateMissing, lib.Path() + ": no plugins", "leave the library in its wheel's tree, or set NIXL_PLUGIN_DIR"}}
	}
	facts := link.ReadFacts("/", "this machine") // before the measurement keeps UCX on loopback
	return []finding{
		{"NIXL", stateOK, lib.Path() + "\nplugins " + strings.Join(plugins, " "), ""},
		examineNIXLPath(lib.Path()),
		examineRDMA(facts),
	}
}

// examineNIXLPath measures between two processes of this machine, as two engines or sidecars on it
// would.
func examineNIXLPath(library string) finding {
	const name = "NIXL path"
	ctx, stop := context.WithTimeout(context.Background(), nixlPatience)
	defer stop()
	o := &nixlOptions{backend: "UCX", batch: 1, library: library, largest: "64MiB", bytes: 64 << 20}
	lib, _, err := o.load()
	if err != nil {
		return finding{name, stateMissing, err.Error(), ""}
	}
	agent, memory, err := o.open(lib, "warmpath-doctor")
	if err != nil {
		return finding{name, stateMissing, err.Error(), "run warmpath bench nixl to see more"}
	}
	defer func() { _ = agent.Close() }() // the process ends next
	far, err := o.startPeer(ctx)
	if err != nil {
		return finding{name, stateMissing, err.Error(), "run warmpath bench nixl to see more"}
	}
	defer func() { _ = far.end() }() // what it says at its end changes nothing here
	remote, err := agent.Load(far.Metadata)
	if err != nil {
		return finding{name, stateMissing, err.Error(), ""}
	}
	facts := link.ReadFacts("/", "this machine")
	l, err := link.Probe(ctx, remote, memory, remote.Memories()[0], link.Ends{Here: &facts, There: &facts})
	if err != nil {
		return finding{name, stateMissing, err.Error(), "run warmpath bench nixl to see more"}
	}
	text := fmt.Sprintf("within this machine: %s\nread %.1f GB/s, write %.1f GB/s, 64 KiB in %.0f µs", pathText[link.Path(l.Path)], l.Read/1e9, l.Write/1e9, l.Latency*1e6)
	if l.Slow != "" {
		return finding{name, stateMissing, text, l.Slow}
	}
	return finding{name, stateOK, text, ""}
}

// examineRDMA says what the machine's adapters should do between machines.
func examineRDMA(f link.Facts) finding {
	const name = "RDMA"
	if len(f.Devices) == 0 {
		text := "no device that is up in /sys/class/infiniband: KV pages go to other machines by TCP"
		if f.EthernetRate > 0 {
			text += fmt.Sprintf(", at most %.1f GB/s here", f.EthernetRate/1e9)
		}
		return finding{name, stateMissing, text, "routing works without; in a container, give it the devices: --device=/dev/infiniband --ulimit memlock=-1"}
	}
	var text []string
	for _, d := range f.Devices {
		text = append(text, fmt.Sprintf("%s %s, at most %.0f GB/s; half of it at 64 MiB is usual", d.Name, d.Kind, d.Rate/1e9))
	}
	out := finding{name, stateOK, strings.Join(text, "\n"), ""}
	switch {
	case f.NetDevices == "":
		out.State, out.Advice = stateMissing, "set UCX_NET_DEVICES to the devices that shall be used: unset, UCX listens on every interface, and a first transfer may hang"
	case f.LockedMemory >= 0 && f.LockedMemory < 1<<30:
		out.State, out.Advice = stateMissing, fmt.Sprintf("only %d MiB of memory may be locked: ulimit -l unlimited, or LimitMEMLOCK=infinity", f.LockedMemory>>20)
	}
	return out
}
