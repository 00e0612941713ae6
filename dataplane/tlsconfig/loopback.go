package tlsconfig

import (
	"net/netip"
	"strings"
)

// Loopback reports whether a host, an IPv6 address with or without its brackets, is reachable
// from this machine alone. Names other than localhost are not resolved: they are not.
func Loopback(host string) bool {
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || (err == nil && addr.Unmap().IsLoopback())
}
