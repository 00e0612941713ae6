package hugepage

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// mapping is a line of /proc/self/maps.
type mapping struct {
	span
	anonymous bool // and private, as the Go heap is
	writable  bool // and readable: in use, not only reserved
}

// heap returns the writable mappings of the Go heap.
//
// Since Go 1.26 its base is random, so an object's address leads to it: the runtime reserves
// arenas of 64 MiB one behind the other, and the heap is the series of private anonymous
// mappings without a gap around the object. Other large anonymous mappings are thread stacks
// and malloc's arenas, where a first touch must not cost 2 MiB. Few kernels support the names
// that the runtime gives its mappings.
func heap() []span {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil
	}
	defer f.Close()
	return around(heapAddress(), readMaps(f))
}

// around returns the writable mappings in the series of anonymous ones that includes p.
func around(p uintptr, maps []mapping) []span {
	var series []span
	found, end := false, uintptr(0)
	for _, m := range maps {
		if !m.anonymous || m.start != end {
			if found {
				break
			}
			series = series[:0]
		}
		end = m.end
		if m.anonymous && m.writable {
			series = append(series, m.span)
			found = found || m.start <= p && p < m.end
		}
	}
	if !found {
		return nil
	}
	return series
}

// readMaps parses /proc/self/maps: "start-end rwxp offset device inode name", see
// proc_pid_maps(5).
func readMaps(r io.Reader) []mapping {
	var maps []mapping
	for lines := bufio.NewScanner(r); lines.Scan(); {
		fields := bytes.Fields(lines.Bytes())
		if len(fields) < 5 || len(fields[1]) < 4 {
			continue
		}
		low, high, _ := bytes.Cut(fields[0], []byte("-"))
		start, errStart := strconv.ParseUint(string(low), 16, strconv.IntSize)
		end, errEnd := strconv.ParseUint(string(high), 16, strconv.IntSize)
		if errStart != nil || errEnd != nil {
			continue
		}
		mode := fields[1]
		unnamed := len(fields) == 5 || bytes.HasPrefix(fields[5], []byte("[anon:"))
		maps = append(maps, mapping{
			span:      span{uintptr(start), uintptr(end)},
			anonymous: unnamed && mode[3] == 'p' && string(fields[4]) == "0",
			writable:  mode[0] == 'r' && mode[1] == 'w',
		})
	}
	return maps
}

// advise asks for huge pages in s from the first touch on.
func advise(s span) { madvise(s, unix.MADV_HUGEPAGE) }

// collapse makes huge pages of the small ones in s. The kernel skips pages in use, and stops
// without a free huge page: a later tick tries again.
func collapse(s span) { madvise(s, unix.MADV_COLLAPSE) }

// madvise ignores the result: memory that the kernel refuses stays as it is.
func madvise(s span, advice int) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, s.start, s.end-s.start, uintptr(advice))
}
