package hugepage

import (
	"bytes"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	sysfs = "/sys/kernel/mm/transparent_hugepage/"
	// shareOfMemory bounds a reservation to a quarter of the memory: the rest stays for small
	// pages.
	shareOfMemory = 4
)

// Setting returns the kernel's setting: always, madvise or never; "" if it has no huge pages of
// Size.
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

// available reports whether the kernel gives huge pages on request.
func available() bool {
	setting := Setting()
	return setting == "always" || setting == "madvise"
}

// Reserve grows the heap once by n bytes, advised with MADV_HUGEPAGE and untouched, and returns
// their number: less if memory is scarce, 0 without huge pages. It runs the garbage collector,
// so call it before the program has allocated much. It is for measurements, which want the
// memory of a router that has been up for a while: parts that Go gives back may come back.
func Reserve(n int64) int64 {
	if !available() {
		return 0
	}
	n = min(n, Memory()/shareOfMemory) &^ (Size - 1)
	// Go ends the process if the kernel refuses it memory (RLIMIT_AS, vm.overcommit_memory=2).
	// So ask first, and for twice as much, as the rest of the program needs memory, too.
	for ; n > 0 && !mappable(2*n); n = n / 2 &^ (Size - 1) {
	}
	if n <= 0 {
		return 0
	}
	growHeap(n)
	// Takes the reservation out of the collector's goal, and tells the runtime that it is not
	// in memory, so that the scavenger does not visit it page by page.
	debug.FreeOSMemory()
	return n
}

// mappable reports whether the kernel would map n more bytes.
func mappable(n int64) bool {
	const access, kind = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANON
	probe, err := unix.Mmap(-1, 0, int(n), access, kind)
	if err != nil {
		return false
	}
	return unix.Munmap(probe) == nil
}

// Bytes returns the bytes of this process in huge pages. The kernel walks all its page tables
// for that.
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
