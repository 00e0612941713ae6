package machine

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

// Memory returns the bytes that this process's heap may use: the least of ProcessMemory and
// Go's own limit.
func Memory() int64 { return min(debug.SetMemoryLimit(-1), ProcessMemory()) }

// ProcessMemory returns the bytes that this process may use: those of the machine, or of its
// control groups if that is less.
func ProcessMemory() int64 {
	least := int64(math.MaxInt64)
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		least = min(least, int64(info.Totalram)*int64(info.Unit))
	}
	groups, _ := os.ReadFile("/proc/self/cgroup")
	return min(least, groupLimit("/sys/fs/cgroup", string(groups)))
}

// groupLimit returns the least limit of the control groups and their parents, in both versions
// of the interface. Within a container the path may be the host's; the limit is in the root
// then.
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
