package tlsconfig

import (
	"net/netip"
	"strings"
)

// Loopback reports whether a host, an IPv6 address with or without its brackets, is this machine and nobody else's way to it. Names other
// than localhost are not looked up: they are not.
func Loopback(host string) bool {
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || (err == nil && addr.Unmap().IsLoopback())
}
