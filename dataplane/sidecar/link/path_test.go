package link_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/sidecar/link"
	"github.com/warmpath/warmpath/nixl"
)

// sample returns a measurement of one size, with the shares of latency in the posting call.
func sample(size int, latency, post time.Duration) link.Sample {
	return link.Sample{
		Size: size, Best: float64(size) / latency.Seconds(), Latency: link.Spread{Min: latency, Mean: latency, P99: latency},
		Post: link.Spread{Min: post, Mean: post}, Transfer: link.Spread{Min: latency, Mean: latency},
	}
}

// Measured on the machine of bench/results, except for RDMA: the published rate of an adapter of
// 400 Gb/s.
var (
	overCMA  = []link.Sample{sample(64<<10, 40*time.Microsecond, 30*time.Microsecond), sample(64<<20, 19*time.Millisecond, 18*time.Millisecond)}
	overShm  = []link.Sample{sample(64, time.Microsecond, 800*time.Nanosecond), sample(64<<20, 16*time.Millisecond, 15*time.Millisecond)}
	overTCP  = []link.Sample{sample(64<<10, 190*time.Microsecond, 50*time.Microsecond), sample(64<<20, 120*time.Millisecond, 40*time.Microsecond)}
	overRDMA = []link.Sample{sample(64<<10, 12*time.Microsecond, 2*time.Microsecond), sample(64<<20, 2800*time.Microsecond, 20*time.Microsecond)}
)

func node(name, boot string, edit ...func(*link.Facts)) *link.Facts {
	f := &link.Facts{
		Node: name, LockedMemory: -1, SystemRead: 3 * time.Microsecond,
		Identity: nixl.ProcessIdentity{Boot: boot, PIDNamespace: "pid:[1]", UserNamespace: "user:[1]", UID: "0 0 0", GID: "0 0 0"},
	}
	for _, e := range edit {
		e(f)
	}
	return f
}

// disturbed returns a measurement with all transfers but one preempted, in the posting call or
// after it.
func disturbed(s link.Sample, count int, post, transfer time.Duration) link.Sample {
	s.Count, s.Post.Mean, s.Transfer.Mean = count, post, transfer
	return s
}

// Preemption makes one path look like another in the mean.
var (
	overBusyCMA = []link.Sample{
		disturbed(sample(1<<20, 110*time.Microsecond, 100*time.Microsecond), 8, 100*time.Microsecond, 9*time.Millisecond),
		disturbed(sample(64<<20, 60*time.Millisecond, 18*time.Millisecond), 1, 18*time.Millisecond, 60*time.Millisecond),
	}
	overBusyTCP = []link.Sample{
		disturbed(sample(1<<20, 400*time.Microsecond, 50*time.Microsecond), 8, 9*time.Millisecond, 10*time.Millisecond),
		disturbed(sample(64<<20, 120*time.Millisecond, 100*time.Millisecond), 1, 100*time.Millisecond, 120*time.Millisecond),
	}
)

// System calls, and CMA with them, are five times faster on some machines than on others.
var (
	overFastCMA = []link.Sample{sample(64, 7*time.Microsecond, 1500*time.Nanosecond), sample(64<<20, 10*time.Millisecond, 9*time.Millisecond)}
	overFastShm = []link.Sample{sample(64, time.Microsecond, 200*time.Nanosecond), sample(64<<20, 10*time.Millisecond, 9*time.Millisecond)}
)

func fastCalls(f *link.Facts) { f.SystemRead = 400 * time.Nanosecond }

// ids returns the facts of a user's process with capabilities.
func ids(users, groups string, capabilities uint64) func(*link.Facts) {
	return func(f *link.Facts) {
		f.Identity.UID, f.Identity.GID, f.Identity.Capabilities = users, groups, capabilities
	}
}

func withDevice(f *link.Facts) {
	f.Devices = []link.Device{{Name: "mlx5_0:1", Rate: 50e9, Kind: "InfiniBand"}}
	f.NetDevices = "mlx5_0:1"
}

func TestPaths(t *testing.T) {
	tests := []struct {
		name        string
		here, there *link.Facts
		samples     []link.Sample
		path        link.Path
		words       []string // of the warning; none is no warning
	}{
		{"one machine, CMA", node("a", "x"), node("b", "x"), overCMA, link.CMA, nil},
		{"one machine, shared memory", node("a", "x"), node("b", "x"), overShm, link.Shared, nil},
		{"a fast machine, CMA", node("a", "x", fastCalls), node("b", "x", fastCalls), overFastCMA, link.CMA, nil},
		{"a fast machine, shared memory", node("a", "x", fastCalls), node("b", "x", fastCalls), overFastShm, link.Shared, nil},
		{"a busy machine, CMA", node("a", "x"), node("b", "x"), overBusyCMA, link.CMA, nil},
		{"a busy machine, TCP", node("a", "x"), node("b", "x"), overBusyTCP, link.TCP, []string{"over TCP"}},
		{
			"one machine, two users", node("a", "x"), node("b", "x", func(f *link.Facts) { f.Identity.UID = "1000 1000 1000" }),
			overTCP, link.TCP,
			[]string{"over TCP", "user ids 0 and 1000 differ"},
		},
		{
			"one machine, two PID namespaces", node("a", "x"), node("b", "x", func(f *link.Facts) { f.Identity.PIDNamespace = "pid:[2]" }),
			overTCP, link.TCP,
			[]string{"PID namespaces"},
		},
		{
			"one machine, UCX told so", node("a", "x"), node("b", "x", func(f *link.Facts) { f.Transports = "tcp,self" }),
			overTCP, link.TCP,
			[]string{"UCX_TLS=tcp,self of b"},
		},
		{
			"one machine, a busy one, two groups", node("a", "x", ids("1 1 1", "2 2 2", 0)), node("b", "x", ids("1 1 1", "3 3 3", 0)),
			overCMA, link.TCP, // for any times
			[]string{"over TCP", "group ids 2 and 3 differ"},
		},
		{"one machine, the reader is root", node("a", "x", ids("0 0 0", "0 0 0", 1<<19)), node("b", "x", ids("1 1 1", "3 3 3", 0)), overCMA, link.CMA, nil},
		{
			"one machine, capabilities", node("a", "x", ids("1 1 1", "2 2 2", 0)), node("b", "x", ids("1 1 1", "2 2 2", 1<<14)),
			overCMA, link.TCP,
			[]string{"capabilities (0x4000)"},
		},
		{
			"one machine, a rootless container", node("a", "x", ids("0 0 0", "0 0 0", 1<<19)),
			node("b", "x", ids("0 0 0", "0 0 0", 1<<19), func(f *link.Facts) { f.Identity.UserNamespace = "user:[2]" }),
			overCMA, link.TCP,
			[]string{"two user namespaces"},
		},
		{
			"one machine, started from a file with capabilities", node("a", "x", ids("1 1 1", "2 2 2", 0)),
			node("b", "x", ids("1 1 1", "2 2 2", 0), func(f *link.Facts) { f.Identity.Hidden = true }),
			overCMA, link.TCP,
			[]string{"hides its memory"},
		},
		{
			"one machine, seccomp", node("a", "x", ids("1 1 1", "2 2 2", 0), func(f *link.Facts) { f.SystemRead = 0 }), node("b", "x", ids("1 1 1", "2 2 2", 0)),
			overCMA, link.TCP,
			[]string{"process_vm_readv is refused on a"},
		},
		{"one machine, ptrace", node("a", "x", func(f *link.Facts) { f.Ptrace = 1 }), node("b", "x"), overTCP, link.TCP, []string{"ptrace_scope"}},
		{"two machines, no devices", node("a", "x"), node("b", "y"), overTCP, link.TCP, []string{"TCP is all there is"}},
		{"two machines, one device", node("a", "x", withDevice), node("b", "y"), overTCP, link.TCP, []string{"b has no RDMA device"}},
		{"two machines, RDMA", node("a", "x", withDevice), node("b", "y", withDevice), overRDMA, link.RDMA, nil},
		{
			"two machines, devices not named", node("a", "x", withDevice), node("b", "y", withDevice, func(f *link.Facts) { f.NetDevices = "" }),
			overTCP, link.TCP,
			[]string{"UCX_NET_DEVICES of b is unset", "mlx5_0:1"},
		},
		{
			"two machines, another device named", node("a", "x", withDevice, func(f *link.Facts) { f.NetDevices = "eth0" }), node("b", "y", withDevice),
			overTCP, link.TCP,
			[]string{"UCX_NET_DEVICES=eth0 of a names no RDMA device"},
		},
		{
			"two machines, RDMA left out", node("a", "x", withDevice, func(f *link.Facts) { f.Transports = "tcp" }), node("b", "y", withDevice),
			overTCP, link.TCP,
			[]string{"UCX_TLS=tcp of a leaves RDMA out"},
		},
		{
			"two machines, RDMA excluded", node("a", "x", withDevice), node("b", "y", withDevice, func(f *link.Facts) { f.Transports = "^rc_verbs,ib" }),
			overTCP, link.TCP,
			[]string{"UCX_TLS=^rc_verbs,ib of b leaves RDMA out"},
		},
		{
			"two machines, little memory to lock", node("a", "x", withDevice, func(f *link.Facts) { f.LockedMemory = 8 << 20 }), node("b", "y", withDevice),
			overTCP, link.TCP,
			[]string{"may lock only 8 MiB"},
		},
		{"nothing measured", node("a", "x"), node("b", "x"), nil, link.Unknown, nil},
	}
	for _, test := range tests {
		path := link.InferPath(test.here, test.there, test.samples)
		words := link.Diagnose(test.here, test.there, path, test.samples)
		if path != test.path || (words == "") != (test.words == nil) {
			t.Errorf("%s: %s, %q, want %s, %q", test.name, path, words, test.path, test.words)
		}
		for _, want := range test.words {
			if !strings.Contains(words, want) {
				t.Errorf("%s: %q, want %q in it", test.name, words, want)
			}
		}
	}
}

// TestReadFacts reads a fake machine.
func TestReadFacts(t *testing.T) {
	root := t.TempDir()
	files := map[string]string{
		"proc/sys/kernel/random/boot_id":                 "5a5a\n",
		"proc/sys/kernel/yama/ptrace_scope":              "1\n",
		"sys/class/infiniband/mlx5_0/ports/1/state":      "4: ACTIVE\n",
		"sys/class/infiniband/mlx5_0/ports/1/rate":       "400 Gb/sec (4X NDR)\n",
		"sys/class/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand\n",
		"sys/class/infiniband/mlx5_1/ports/1/state":      "1: DOWN\n",
		"sys/class/net/eth0/operstate":                   "up\n",
		"sys/class/net/eth0/speed":                       "25000\n",
		"sys/class/net/eth1/operstate":                   "down\n",
		"sys/class/net/eth1/speed":                       "100000\n",
		"sys/class/net/veth/operstate":                   "up\n",
		"sys/class/net/veth/speed":                       "-1\n",
	}
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	f := link.ReadFacts(root, "here")
	if f.Identity.Boot != "5a5a" || f.Ptrace != 1 || f.EthernetRate != 25e9/8 || len(f.Devices) != 1 {
		t.Fatalf("Gather = %+v", f)
	}
	if want := (link.Device{Name: "mlx5_0:1", Rate: 50e9, Kind: "InfiniBand"}); f.Devices[0] != want {
		t.Errorf("Device = %+v, want %+v", f.Devices[0], want)
	}
	if empty := link.ReadFacts(t.TempDir(), "nothing"); empty.Identity.Boot != "" || empty.Devices != nil || empty.EthernetRate != 0 {
		t.Errorf("Gather of nothing = %+v", empty)
	}
}
