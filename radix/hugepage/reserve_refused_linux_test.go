//go:build !race

package hugepage

import (
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Go ends a process to which the kernel refuses memory; the race detector does so before.
func TestReserveSurvivesRefusal(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseUint(strings.Fields(string(text))[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	limit := unix.Rlimit{Cur: pages*uint64(os.Getpagesize()) + 300<<20, Max: math.MaxUint64}
	if err := unix.Prlimit(0, unix.RLIMIT_AS, &limit, nil); err != nil {
		t.Skip(err)
	}
	if n := Reserve(256 << 20); n != 128<<20 {
		t.Errorf("Reserve(256 MiB) = %d with 300 MiB of address space, want 128 MiB", n)
	}
}
