package link

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/nixl"
)

// Facts are the properties of a process and its machine that decide the path of its transfers.
type Facts struct {
	Node     string               `json:"node"`
	Identity nixl.ProcessIdentity `json:"identity"`
	// Kernel.yama.ptrace_scope; 0 where the kernel has none.
	Ptrace       int      `json:"ptrace"`
	LockedMemory int64    `json:"locked_memory"` // bytes; -1 is no limit
	Transports   string   `json:"transports"`    // UCX_TLS
	NetDevices   string   `json:"net_devices"`   // UCX_NET_DEVICES
	Devices      []Device `json:"devices,omitempty"`
	// Bytes a second of the fastest interface.
	EthernetRate float64 `json:"ethernet_rate,omitempty"`
	// SystemRead is the least time of a process_vm_readv of 64 bytes, a bound of all paths with a
	// system call. 0: not allowed.
	SystemRead time.Duration `json:"system_read,omitempty"`
}

// Device is an active port of an RDMA device.
type Device struct {
	Name string  `json:"name"` // as UCX_NET_DEVICES takes it: mlx5_0:1
	Rate float64 `json:"rate"` // bytes a second
	Kind string  `json:"kind"` // InfiniBand or Ethernet
}

// ReadFacts reads the facts below root, which is "/" except in tests.
func ReadFacts(root, node string) Facts {
	f := Facts{
		Node: node, Identity: nixl.ReadProcessIdentity(root), LockedMemory: lockedMemory(),
		Transports: os.Getenv("UCX_TLS"), NetDevices: os.Getenv("UCX_NET_DEVICES"),
		Devices: rdmaDevices(filepath.Join(root, "sys/class/infiniband")), EthernetRate: ethernetRate(filepath.Join(root, "sys/class/net")),
		SystemRead: systemRead(),
	}
	f.Ptrace, _ = strconv.Atoi(readText(filepath.Join(root, "proc/sys/kernel/yama/ptrace_scope")))
	return f
}

// systemRead returns the fastest of 64 reads of this process's own memory.
func systemRead() (fastest time.Duration) {
	var from, to [64]byte
	local := []unix.Iovec{{Base: &to[0], Len: uint64(len(to))}}
	remote := []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&from[0])), Len: len(from)}}
	for range 64 {
		begin := time.Now()
		if _, err := unix.ProcessVMReadv(os.Getpid(), local, remote, 0); err != nil {
			return 0
		}
		if took := time.Since(begin); fastest == 0 || took < fastest {
			fastest = took
		}
	}
	runtime.KeepAlive(&from)
	return fastest
}

// readText returns the content of a small file, or "".
func readText(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func lockedMemory() int64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil || limit.Cur == unix.RLIM_INFINITY {
		return -1
	}
	return int64(limit.Cur)
}

// rdmaDevices lists the active ports. Files: DEVICE/ports/N/{state, rate, link_layer}, such as
// "4: ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand".
func rdmaDevices(dir string) []Device {
	states, _ := filepath.Glob(filepath.Join(dir, "*/ports/*/state"))
	var found []Device
	for _, state := range states {
		port := filepath.Dir(state)
		if !strings.Contains(readText(state), "ACTIVE") {
			continue
		}
		name := filepath.Base(filepath.Dir(filepath.Dir(port))) + ":" + filepath.Base(port)
		gigabits, _, _ := strings.Cut(readText(filepath.Join(port, "rate")), " ")
		rate, _ := strconv.ParseFloat(gigabits, 64)
		found = append(found, Device{Name: name, Rate: rate / 8 * 1e9, Kind: readText(filepath.Join(port, "link_layer"))})
	}
	return found
}

// ethernetRate returns the rate of the fastest active interface. Files: NAME/{operstate, speed},
// the speed in Mb/s or -1.
func ethernetRate(dir string) (fastest float64) {
	states, _ := filepath.Glob(filepath.Join(dir, "*/operstate"))
	for _, state := range states {
		if readText(state) != "up" {
			continue
		}
		if megabits, err := strconv.ParseFloat(readText(filepath.Join(filepath.Dir(state), "speed")), 64); err == nil {
			fastest = max(fastest, megabits/8*1e6)
		}
	}
	return fastest
}

// deviceRate returns the rate of the fastest device, which bounds one transfer.
func (f *Facts) deviceRate() (fastest float64) {
	for _, d := range f.Devices {
		fastest = max(fastest, d.Rate)
	}
	return fastest
}

func (f *Facts) deviceNames() string {
	var names []string
	for _, d := range f.Devices {
		names = append(names, d.Name)
	}
	return strings.Join(names, ",")
}

// namesDevice reports whether UCX_NET_DEVICES, a list of DEVICE:PORT or all, has an RDMA device.
func (f *Facts) namesDevice() bool {
	list := strings.Split(f.NetDevices, ",")
	return slices.Contains(list, "all") || slices.ContainsFunc(f.Devices, func(d Device) bool {
		bare, _, _ := strings.Cut(d.Name, ":")
		return slices.Contains(list, d.Name) || slices.Contains(list, bare)
	})
}

// rdmaTransports begin the names of UCX's transports over RDMA.
var rdmaTransports = []string{"rc", "dc", "ud", "ib", "srd"}

// excludesRDMA reports whether UCX_TLS leaves them all out. It is a list of names, "all", or "^"
// and a list of excluded names, of which ib is all of InfiniBand's.
func (f *Facts) excludesRDMA() bool {
	if excluded, ok := strings.CutPrefix(f.Transports, "^"); ok {
		return slices.Contains(strings.Split(excluded, ","), "ib")
	}
	return f.Transports != "" && !slices.ContainsFunc(strings.Split(f.Transports, ","), func(t string) bool {
		return t == "all" || slices.ContainsFunc(rdmaTransports, func(name string) bool { return strings.HasPrefix(t, name) })
	})
}
