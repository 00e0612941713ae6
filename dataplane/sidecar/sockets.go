package sidecar

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// listenSocket is a listening TCP socket of this network namespace.
type listenSocket struct {
	addr  netip.AddrPort
	inode uint64 // of the socket among the open files of a process
	user  uint32 // who opened it
}

// stateListen is TCP_LISTEN in include/net/tcp_states.h.
const stateListen = "0A"

// readSockets reads /proc/net/tcp and tcp6. A kernel without IPv6 lacks the latter.
func readSockets(proc string) ([]listenSocket, error) {
	var all []listenSocket
	for _, name := range []string{"net/tcp", "net/tcp6"} {
		file, err := os.Open(filepath.Join(proc, name))
		if errors.Is(err, fs.ErrNotExist) && name == "net/tcp6" {
			continue
		}
		if err != nil {
			return nil, err
		}
		all, err = appendListening(all, file)
		_ = file.Close()
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// appendListening appends the listening sockets of one table: lines of "sl local_address
// rem_address st … uid … inode …" below a heading, as net/ipv4/tcp_ipv4.c writes them. It ends at
// the first socket of another state: listening sockets come first, and a busy worker has thousands
// of others, which the kernel would have to look up and print.
func appendListening(all []listenSocket, table io.Reader) ([]listenSocket, error) {
	lines := bufio.NewScanner(table)
	for heading := true; lines.Scan(); heading = false {
		if heading {
			continue
		}
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 {
			continue
		}
		if fields[3] != stateListen {
			break
		}
		addr, ok := parseAddr(fields[1])
		inode, err := strconv.ParseUint(fields[9], 10, 64)
		user, err2 := strconv.ParseUint(fields[7], 10, 32)
		if ok && err == nil && err2 == nil {
			all = append(all, listenSocket{addr, inode, uint32(user)})
		}
	}
	return all, lines.Err()
}

// parseAddr reads "0100007F:1F90": the address as 32-bit words in the machine's byte order, the
// port in plain hexadecimal.
func parseAddr(text string) (netip.AddrPort, bool) {
	words, port, ok := strings.Cut(text, ":")
	raw, err := hex.DecodeString(words)
	number, err2 := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || err2 != nil || (len(raw) != 4 && len(raw) != 16) {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	addr, _ := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr.Unmap(), uint16(number)), true
}

// dialAddresses returns the addresses by which this machine connects to a socket, the likeliest
// first. A socket of all IPv6 addresses usually takes IPv4 too, and many machines lack IPv6 on
// loopback.
func (l listenSocket) dialAddresses() []string {
	port := strconv.Itoa(int(l.addr.Port()))
	switch {
	case !l.addr.Addr().IsUnspecified():
		return []string{l.addr.String()}
	case l.addr.Addr().Is4():
		return []string{"127.0.0.1:" + port}
	default:
		return []string{"127.0.0.1:" + port, "[::1]:" + port}
	}
}
