package hugepage

import (
	"bytes"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	sysfs = "/sys/kernel/mm/transparent_hugepage/"
	// At most this part of the memory that the process may use: where it is little, the heap should stay free to use it in small
	// pages.
	shareOfMemory = 4
)

// Setting returns what the kernel is set to, always, madvise or never; "" where it has no huge pages of Size.
func Setting() string {
	size, err := os.ReadFile(sysfs + "hpage_pmd_size")
	if err != nil || string(bytes.TrimSpace(size)) != strconv.Itoa(Size) {
		return ""
	}
	modes, _ := os.ReadFile(sysfs + "enabled")
	_, mode, _ := strings.Cut(string(modes), "[")
	mode, _, _ = strings.Cut(mode, "]")
	return mode
}

// asked reports whether the kernel gives huge pages to who asks.
func asked() bool {
	setting := Setting()
	return setting == "always" || setting == "madvise"
}

// Reserve makes the heap grow, once, by n bytes that are advised with MADV_HUGEPAGE and untouched, and returns how many they are: less where
// memory is scarce, 0 where the kernel has no huge pages. Call it before the program has allocated much: it runs the garbage collector. It is
// for measurements, which want the memory of a router that has been up for a while: what Go gives back of it may come back.
func Reserve(n int64) int64 {
	if !asked() {
		return 0
	}
	n = min(n, memory()/shareOfMemory) &^ (Size - 1)
	// Go ends the process when the kernel refuses it memory (RLIMIT_AS, vm.overcommit_memory=2), so ask first, for twice as much:
	// what is left must do for all else.
	for ; n > 0 && !available(2*n); n = n / 2 &^ (Size - 1) {
	}
	if n <= 0 {
		return 0
	}
	growHeap(n)
	// Takes the reservation out of the garbage collector's reckoning, which would let the heap grow by it before it collects again,
	// and tells the runtime that it is not in memory, so that the scavenger need not find out page by page.
	debug.FreeOSMemory()
	return n
}

// available reports whether the kernel would map n more bytes.
func available(n int64) bool {
	probe, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return false
	}
	return unix.Munmap(probe) == nil
}

// memory returns the bytes that this process's heap may use: the least of what the process may, and of Go's own limit.
func memory() int64 { return min(debug.SetMemoryLimit(-1), Room()) }

// Room returns the bytes that this process may use, whatever for: the machine's, or those of its control groups where that is less.
func Room() int64 {
	least := int64(math.MaxInt64)
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		least = min(least, int64(info.Totalram)*int64(info.Unit))
	}
	groups, _ := os.ReadFile("/proc/self/cgroup")
	return min(least, groupLimit("/sys/fs/cgroup", string(groups)))
}

// groupLimit returns the least limit of the control groups and of those around them, in both versions of the interface. Within a
// container the path may be the host's; there the root is what counts.
func groupLimit(root, groups string) int64 {
	least := int64(math.MaxInt64)
	for line := range strings.Lines(groups) {
		controllers, dir, _ := strings.Cut(strings.TrimSpace(line), "/")
		base, file := root, "memory.max"
		if controllers != "0::" {
			if !strings.Contains(controllers, "memory") {
				continue
			}
			base, file = path.Join(root, "memory"), "memory.limit_in_bytes"
		}
		for dir = "/" + dir; ; dir = path.Dir(dir) {
			text, _ := os.ReadFile(path.Join(base, dir, file))
			// "max" is no number and no limit.
			if n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64); err == nil {
				least = min(least, n)
			}
			if dir == "/" {
				break
			}
		}
	}
	return least
}

// Bytes returns how much of this process is in huge pages. The kernel walks all of its page tables for it.
func Bytes() int64 {
	text, _ := os.ReadFile("/proc/self/smaps_rollup")
	_, rest, _ := strings.Cut(string(text), "AnonHugePages:")
	number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	kibibytes, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0
	}
	return kibibytes << 10
}
