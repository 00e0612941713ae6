package hugepage

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inOwnProcess runs the calling test in its own process, because Reserve changes a process for
// good, and reports whether this is that process.
func inOwnProcess(t *testing.T) bool {
	t.Helper()
	if os.Getenv("HUGEPAGE_ALONE") == t.Name() {
		return true
	}
	if !available() {
		t.Skipf("transparent huge pages are %q here", Setting())
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "HUGEPAGE_ALONE="+t.Name())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// requireHugePages skips the test if the kernel has no huge pages for n bytes, because memory
// is fragmented.
func requireHugePages(tb testing.TB, n int) {
	tb.Helper()
	b, err := unix.Mmap(-1, 0, n+Size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		tb.Skip(err)
	}
	defer func() { _ = unix.Munmap(b) }()
	if err := unix.Madvise(b, unix.MADV_HUGEPAGE); err != nil {
		tb.Skip("the kernel has no huge pages: ", err)
	}
	before := Bytes()
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	if got := Bytes() - before; got < int64(n)*7/8 {
		tb.Skipf("the kernel has huge pages for %d of %d bytes", got, n)
	}
}

// patience bounds waits for the kernel: other processes may hold its huge pages for a while.
const patience = 5 * time.Minute

// untilGiven waits until f fails no more. It skips the test if the kernel has no huge pages for n
// bytes by then.
func untilGiven(t *testing.T, n int, f func() error) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			requireHugePages(t, n)
			t.Fatal(err)
		}
	}
}

type object64 struct {
	next *object64
	_    [7]uint64
}

// objects returns a list of n bytes of small objects.
func objects(n int) *object64 {
	var head *object64
	for range n / 64 {
		head = &object64{next: head}
	}
	return head
}

func resident(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

func TestReserve(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	const reserve, fill = 128 << 20, 64 << 20
	requireHugePages(t, reserve)
	before := resident(t)
	if n := Reserve(reserve); n != reserve {
		t.Fatalf("Reserve(%d) = %d", reserve, n)
	}
	if grown := resident(t) - before; grown > 8<<20 {
		t.Errorf("the reservation takes %d bytes, want none", grown)
	}
	goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	if metrics.Read(goal); goal[0].Value.Uint64() > 16<<20 {
		t.Errorf("the heap may grow to %d bytes before it is collected, want a few MiB",
			goal[0].Value.Uint64())
	}
	for range 2 { // and again in memory that was given back
		untilGiven(t, fill, func() error {
			list := objects(fill)
			given := Bytes()
			runtime.KeepAlive(list)
			debug.FreeOSMemory()
			if given < fill*3/4 {
				return fmt.Errorf("%d bytes are huge, want most of %d", given, fill)
			}
			if n := Bytes(); n > fill/4 {
				return fmt.Errorf("%d bytes are huge after all has been given back", n)
			}
			return nil
		})
	}
}

func TestReserveUnderMemoryLimit(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	debug.SetMemoryLimit(100 << 20)
	if n := Reserve(256 << 20); n > 25<<20 || n == 0 {
		t.Errorf("Reserve = %d with a limit of 100 MiB, want a quarter of that", n)
	}
	debug.SetMemoryLimit(1 << 20)
	if n := Reserve(256 << 20); n != 0 {
		t.Errorf("Reserve = %d with a limit of 1 MiB, want 0", n)
	}
}

func TestGroupLimit(t *testing.T) {
	tests := []struct {
		name, groups string
		files        map[string]string
		want         int64
	}{
		{"none", "0::/\n", nil, math.MaxInt64},
		{"no limit", "0::/a\n", map[string]string{"a/memory.max": "max\n"}, math.MaxInt64},
		{"own", "0::/a/b\n", map[string]string{"a/b/memory.max": "300\n", "a/memory.max": "400\n"}, 300},
		{"of the one around", "0::/a/b\n", map[string]string{"a/b/memory.max": "max\n", "a/memory.max": "200\n"}, 200},
		{"container with the host's path", "0::/docker/f00\n", map[string]string{"memory.max": "100\n"}, 100},
		{
			"version 1", "5:cpu:/x\n4:memory:/a\n0::/\n",
			map[string]string{"memory/a/memory.limit_in_bytes": "50\n", "memory/memory.limit_in_bytes": "9223372036854771712\n"},
			50,
		},
		{"nonsense", "memory\n\n::\n", nil, math.MaxInt64},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range test.files {
				file := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := groupLimit(root, test.groups); got != test.want {
				t.Errorf("groupLimit = %d, want %d", got, test.want)
			}
		})
	}
}
