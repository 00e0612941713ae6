//go:build linux

package resident

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Trim takes the parts of the program that were only needed to start out of this process' memory: the whole of Warmpath is linked into it, and
// starting touches two thirds of it. They stay in the page cache, and what is needed again comes from there. It returns the bytes of the mappings.
// Only mappings of the program's file that hold nothing of their own are given up: their contents cannot change by that.
func Trim() (given uint64) {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return 0
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return 0
	}
	for _, m := range fileMappings(maps, exe) {
		if _, _, failed := unix.Syscall(unix.SYS_MADVISE, uintptr(m[0]), uintptr(m[1]-m[0]), unix.MADV_DONTNEED); failed == 0 {
			given += m[1] - m[0]
		}
	}
	return given
}

// fileMappings reads /proc/PID/smaps for read-only mappings of a file without a page that was changed: "FROM-TO r-xp … PATH", and among the
// lines below it "Anonymous: 0 kB".
func fileMappings(smaps []byte, path string) [][2]uint64 {
	var all [][2]uint64
	var current [2]uint64
	ours := false
	lines := bufio.NewScanner(bytes.NewReader(smaps))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) >= 5 && strings.Contains(fields[0], "-"):
			from, to, ok := addressRange(fields[0])
			ours = ok && len(fields) == 6 && fields[5] == path && (fields[1] == "r-xp" || fields[1] == "r--p")
			current = [2]uint64{from, to}
		case ours && len(fields) == 3 && fields[0] == "Anonymous:":
			if fields[1] == "0" {
				all = append(all, current)
			}
			ours = false
		}
	}
	return all
}

// addressRange reads "00400000-0042b000".
func addressRange(text string) (from, to uint64, ok bool) {
	first, last, found := strings.Cut(text, "-")
	from, err := strconv.ParseUint(first, 16, 64)
	to, err2 := strconv.ParseUint(last, 16, 64)
	return from, to, found && err == nil && err2 == nil && from < to
}
