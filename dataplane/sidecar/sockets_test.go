package sidecar

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const heading = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"

// line returns a socket of this user in the kernel's form.
func line(addr netip.AddrPort, state string, inode uint64) string {
	return lineOf(addr, state, inode, uint32(os.Geteuid()))
}

func lineOf(addr netip.AddrPort, state string, inode uint64, user uint32) string {
	raw := addr.Addr().AsSlice()
	for i := 0; i < len(raw); i += 4 {
		binary.BigEndian.PutUint32(raw[i:], binary.NativeEndian.Uint32(raw[i:]))
	}
	return fmt.Sprintf("   0: %s:%04X 00000000:0000 %s 00000000:00000000 00:00000000 00000000 %5d        0 %d 1 0000000000000000 100 0 0 10 0\n",
		strings.ToUpper(hex.EncodeToString(raw)), addr.Port(), state, user, inode)
}

func TestReadListeners(t *testing.T) {
	table := heading +
		"   0: 0100007F:7530 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 630 1 000000005abae96c 100 0 0 10 0\n" +
		"   1: 00000000:07E8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 631 1 000000005abae96c 100 0 0 10 0\n" +
		"   2: junk\n" +
		"   3: 0100007F:9D21 0100007F:B54A 01 00000000:00000000 03:00000DA5 00000000     0        0 632 3 00000000cf8683dd\n" +
		line(netip.MustParseAddrPort("10.0.0.1:80"), "0A", 633)
	got, err := appendListening(nil, strings.NewReader(table))
	require.NoError(t, err)
	assert.Equal(t, []listenSocket{
		{netip.MustParseAddrPort("127.0.0.1:30000"), 630, 1000}, {netip.MustParseAddrPort("0.0.0.0:2024"), 631, 0},
	}, got, "what follows the first connection is not read")

	six := heading + line(netip.MustParseAddrPort("[::]:30000"), "0A", 1) + line(netip.MustParseAddrPort("[::1]:30001"), "0A", 2) +
		line(netip.AddrPortFrom(netip.MustParseAddr("::ffff:10.0.0.5"), 30002), "0A", 3)
	got, err = appendListening(nil, strings.NewReader(six))
	require.NoError(t, err)
	require.Len(t, got, 3)
	assert.Equal(t, []string{"127.0.0.1:30000", "[::1]:30000"}, got[0].dialAddresses())
	assert.Equal(t, []string{"[::1]:30001"}, got[1].dialAddresses())
	assert.Equal(t, []string{"10.0.0.5:30002"}, got[2].dialAddresses())
}

// FuzzReadListeners writes parsed sockets in the kernel's form and parses them again.
func FuzzReadListeners(f *testing.F) {
	f.Add([]byte(heading + line(netip.MustParseAddrPort("127.0.0.1:30000"), "0A", 7)))
	f.Add([]byte(heading + line(netip.MustParseAddrPort("[::1]:1"), "0A", 1<<63) + "\n\n x"))
	f.Fuzz(func(t *testing.T, table []byte) {
		got, err := appendListening(nil, bytes.NewReader(table))
		if err != nil {
			return
		}
		again := heading
		var againSb65 strings.Builder
		for _, l := range got {
			againSb65.WriteString(lineOf(l.addr, "0A", l.inode, l.user))
		}
		again += againSb65.String()
		second, err := appendListening(nil, strings.NewReader(again))
		require.NoError(t, err)
		require.True(t, slices.Equal(got, second), "%v, then %v", got, second)
	})
}

// TestOwnersOfRealSockets finds this process as owner of its own sockets.
func TestOwnersOfRealSockets(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::1]:0"} {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Log("this machine has no such address: ", err)
			continue
		}
		defer l.Close()
		want := netip.MustParseAddrPort(l.Addr().String())
		// Another process may listen on the same port of another address; and while sockets come
		// and go, the kernel's table may leave one out.
		var all []listenSocket
		at := -1
		require.Eventually(t, func() bool {
			all, err = readSockets("/proc")
			at = slices.IndexFunc(all, func(l listenSocket) bool { return l.addr == want })
			return err != nil || at >= 0
		}, 2*time.Minute, time.Millisecond, "%s is not in the table", want)
		require.NoError(t, err)
		pids, _ := processes{"/proc"}.owners(map[uint64]bool{all[at].inode: true})
		assert.Equal(t, map[uint64]int{all[at].inode: os.Getpid()}, pids)
	}
	assert.Contains(t, processes{"/proc"}.command(os.Getpid()), os.Args[0])
	assert.Equal(t, os.Getppid(), processes{"/proc"}.parent(os.Getpid()))
}

// fakeProc returns a table of processes; each has files by name.
func fakeProc(t *testing.T, all map[int]map[string]string) processes {
	t.Helper()
	root := t.TempDir()
	for pid, files := range all {
		folder := filepath.Join(root, strconv.Itoa(pid))
		require.NoError(t, os.Mkdir(folder, 0o755))
		for name, text := range files {
			require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
		}
	}
	return processes{root}
}

func stat(pid, parent int, name string) string {
	return fmt.Sprintf("%d (%s) S %d 1 1 0", pid, name, parent)
}

func TestRootOf(t *testing.T) {
	p := fakeProc(t, map[int]map[string]string{
		100: {"stat": stat(100, 1, "python")},
		101: {"stat": stat(101, 100, "sglang::scheduler_TP0")},
		102: {"stat": stat(102, 101, "a) S 7 (b")},
		200: {"stat": stat(200, 201, "loop")}, 201: {"stat": stat(201, 200, "loop")},
		300: {"stat": "garbage"},
	})
	workers := map[int]bool{100: true}
	for pid, want := range map[int]int{100: 100, 101: 100, 102: 100, 200: 0, 300: 0, 999: 0, 1: 0, 0: 0, -5: 0} {
		assert.Equal(t, want, p.rootOf(pid, workers), "process %d", pid)
	}
}

func TestParsePorts(t *testing.T) {
	p, err := ParsePorts("30000-30007, 8000")
	require.NoError(t, err)
	assert.Equal(t, Ports{{30000, 30007}, {8000, 8000}}, p)
	assert.Equal(t, "30000-30007,8000", p.String())
	assert.True(t, p.has(30000) && p.has(30007) && p.has(8000))
	assert.False(t, p.has(30008) || p.has(7999))
	for _, bad := range []string{"", "0", "70000", "2-1", "a", "1-2-3", "1,,2", "-1"} {
		_, err := ParsePorts(bad)
		assert.ErrorIs(t, err, ErrPorts, bad)
	}
}
