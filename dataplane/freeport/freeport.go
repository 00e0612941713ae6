package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
)

// Ports lie below 32768, from which Linux picks those of connections and of listeners without one:
// a client may still look there for a listener that has ended, and finds none of ours.
const (
	firstPort = 12_000
	lastPort  = 31_999
	// attempts is how many ports may be taken, one after the other.
	attempts = 1000
)

// Hold returns an address on loopback whose port is kept until release, which may be called twice.
func Hold() (addr string, release func(), err error) {
	for range attempts {
		port := uint16(firstPort + rand.IntN(lastPort-firstPort+1))
		if release, err = hold(port); err == nil {
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte(net.IPv4(127, 0, 0, 1).To4())), port).String(), release, nil
		}
	}
	return "", nil, fmt.Errorf("cannot find a free port: %w", err)
}
