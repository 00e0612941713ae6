//go:build linux

package resident

import (
	"bufio"
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// first are the mappings of files that the process began with: the program and the libraries that it is linked to, which stay as they are until it
// ends. What is loaded later is nobody's to give up: another thread may be relocating it, or unload it, and have the addresses for something else,
// between the look at it and the giving up.
var first = firstMappings()

func firstMappings() [][2]uint64 {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil
	}
	var all [][2]uint64
	for line := range strings.Lines(string(maps)) {
		if m, ok := readOnlyFile(strings.Fields(line)); ok {
			all = append(all, m)
		}
	}
	return all
}

// Trim takes the parts of the program and its libraries that were only needed to start out of this process' memory: starting touches two thirds
// of the program. They stay in the page cache, and what is needed again comes from there. It returns the bytes of the mappings.
// Only read-only mappings of files that hold nothing of their own are given up: their contents cannot change by that.
//
// It also cuts these mappings into pieces. The page cache holds a file in folios: up to 2 MiB each where the file was just written, as a program that
// was just linked. Since 6.18 Linux maps all of a folio at the first touch of a byte of it, so that next to the whole program is in memory again soon
// after: 16 to 20 MiB more than the same program had when it was read from disk. It does so only where the folio lies within one mapping.
func Trim() (given uint64) { return trim(first) }

// trim gives up what lies within some mappings.
func trim(within [][2]uint64) (given uint64) {
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return 0
	}
	for _, m := range fileMappings(maps) {
		if !slices.ContainsFunc(within, func(w [2]uint64) bool { return w[0] <= m[0] && m[1] <= w[1] }) {
			continue
		}
		cut(m)
		if madvise(m, unix.MADV_DONTNEED) {
			given += m[1] - m[0]
		}
	}
	return given
}

// piece is what a mapping is cut into: the folios of a file that the kernel read ahead by its default.
const piece = 128 << 10

// cut makes a mapping of its own of every second piece of the address space that is in a mapping, and so of those between them. What they differ
// by is without effect: that they are left out of core dumps, as all that can be read from files is by default.
func cut(m [2]uint64) {
	for at := m[0] &^ (2*piece - 1); at < m[1]; at += 2 * piece {
		if from, to := max(at, m[0]), min(at+piece, m[1]); from < to {
			madvise([2]uint64{from, to}, unix.MADV_DONTDUMP)
		}
	}
}

func madvise(m [2]uint64, advice int) bool {
	_, _, failed := unix.Syscall(unix.SYS_MADVISE, uintptr(m[0]), uintptr(m[1]-m[0]), uintptr(advice))
	return failed == 0
}

// fileMappings reads /proc/PID/smaps for read-only mappings of files without a page that was changed: "FROM-TO r-xp … PATH", and among the
// lines below it "Anonymous: 0 kB" and "Swap: 0 kB". What was changed may have been swapped out, and would be lost all the same.
func fileMappings(smaps []byte) [][2]uint64 {
	var all [][2]uint64
	var current [2]uint64
	ours := false
	lines := bufio.NewScanner(bytes.NewReader(smaps))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) >= 5 && strings.Contains(fields[0], "-"):
			current, ours = readOnlyFile(fields)
		case ours && len(fields) == 3 && fields[0] == "Anonymous:":
			ours = fields[1] == "0"
		case ours && len(fields) == 3 && fields[0] == "Swap:": // behind Anonymous
			if fields[1] == "0" {
				all = append(all, current)
			}
			ours = false
		}
	}
	return all
}

// readOnlyFile reads the first line of a mapping; ok is false where it is not one of a file that cannot be written.
func readOnlyFile(fields []string) (m [2]uint64, ok bool) {
	if len(fields) != 6 || !strings.HasPrefix(fields[5], "/") || fields[1] != "r-xp" && fields[1] != "r--p" {
		return m, false
	}
	from, to, ok := addressRange(fields[0])
	return [2]uint64{from, to}, ok
}

// addressRange reads "00400000-0042b000".
func addressRange(text string) (from, to uint64, ok bool) {
	first, last, found := strings.Cut(text, "-")
	from, err := strconv.ParseUint(first, 16, 64)
	to, err2 := strconv.ParseUint(last, 16, 64)
	return from, to, found && err == nil && err2 == nil && from < to
}
