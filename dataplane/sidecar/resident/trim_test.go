//go:build linux

package resident

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestFileMappings(t *testing.T) {
	const smaps = `00400000-00500000 r-xp 00000000 00:1f 77 /usr/local/bin/warmpath
Rss:                 700 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
00500000-00600000 r--p 00100000 00:1f 77 /usr/local/bin/warmpath
Anonymous:             4 kB
Swap:                  0 kB
00600000-00700000 rw-p 00200000 00:1f 77 /usr/local/bin/warmpath
Anonymous:             0 kB
Swap:                  0 kB
7f0000000000-7f0000001000 r--p 00000000 00:1f 78 /usr/lib/libzmq.so.5
Anonymous:             0 kB
Swap:                  0 kB
7f0000001000-7f0000002000 r--p 00001000 00:1f 78 /usr/lib/libzmq.so.5
Anonymous:             0 kB
Swap:                  4 kB
7f0000002000-7f0000003000 r--p 00000000 00:00 0
Anonymous:             0 kB
Swap:                  0 kB
7f0000004000-7f0000005000 r-xp 00000000 00:00 0 [vdso]
Anonymous:             0 kB
Swap:                  0 kB
bad-zz r--p 00000000 00:1f 77 /usr/local/bin/warmpath
Anonymous:             0 kB
Swap:                  0 kB
00800000-00900000 r--p 00400000 00:1f 77 /usr/local/bin/warmpath
Anonymous:             0 kB
Swap:                  0 kB
`
	want := [][2]uint64{{0x400000, 0x500000}, {0x7f0000000000, 0x7f0000001000}, {0x800000, 0x900000}}
	if got := fileMappings([]byte(smaps)); !slices.Equal(got, want) {
		t.Errorf("fileMappings = %x, want %x: read-only mappings of files that nobody wrote to", got, want)
	}
}

// TestTrimCuts: a mapping comes to lie in pieces, and stays so when it is trimmed again. One that the process did not begin with is left alone.
func TestTrimCuts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	data := bytes.Repeat([]byte("warmpath"), 8*piece/8) // 8 pieces
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mapped, err := unix.Mmap(int(f.Fd()), 0, len(data), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(mapped); err != nil {
			t.Error(err)
		}
	}()
	pieces := func() (n int) {
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(maps)) {
			if strings.HasSuffix(line, path+"\n") {
				n++
			}
		}
		return n
	}
	if n := pieces(); n != 1 {
		t.Fatalf("%d mappings before", n)
	}
	Trim()
	if n := pieces(); n != 1 {
		t.Errorf("%d mappings after Trim", n)
	}
	at := uint64(uintptr(unsafe.Pointer(&mapped[0])))
	for range 2 {
		if trim([][2]uint64{{at, at + uint64(len(data))}}) == 0 {
			t.Skip("the kernel shows no mappings")
		}
		if n := pieces(); n < 8 || n > 9 {
			t.Errorf("%d pieces lie in %d mappings", len(data)/piece, n)
		}
		if !bytes.Equal(mapped, data) {
			t.Fatal("the file reads otherwise after Trim")
		}
	}
}

func FuzzAddressRange(f *testing.F) {
	for _, text := range []string{"00400000-0042b000", "7f00-7f01", "-", "1-", "-1", "2-1", "ffffffffffffffff-ffffffffffffffff", "g-h"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		from, to, ok := addressRange(text)
		first, last, found := strings.Cut(text, "-")
		a, err := strconv.ParseUint(first, 16, 64)
		b, err2 := strconv.ParseUint(last, 16, 64)
		if want := found && err == nil && err2 == nil && a < b; ok != want || (ok && (from != a || to != b)) {
			t.Errorf("addressRange(%q) = %x, %x, %t", text, from, to, ok)
		}
	})
}

// What is given back is read again when it is needed: the process runs on, with less of its program in memory.
func TestTrim(t *testing.T) {
	for _, m := range first {
		madvise(m, unix.MADV_POPULATE_READ) // another test may have trimmed, and little been needed since
	}
	before := programPages(t)
	if Trim() == 0 {
		t.Skip("the kernel shows no mappings of the program")
	}
	if after := programPages(t); after >= before {
		t.Errorf("%d kB of the program in memory after Trim, %d before", after, before)
	}
}

// programPages returns the kB of files that the process has mapped and in memory.
func programPages(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssFile:"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Skip("the kernel does not tell RssFile")
	return 0
}
