package sidecar

import (
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"

	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// leadsTo reports whether a worker's URL leads to a socket of this machine.
func leadsTo(raw string, l listenSocket) bool {
	u, err := url.Parse(raw)
	if err != nil || portOf(u) != int(l.addr.Port()) {
		return false
	}
	host, bound := u.Hostname(), l.addr.Addr()
	if bound.IsUnspecified() {
		return isLocal(host)
	}
	addr, err := netip.ParseAddr(host)
	return (err == nil && addr.Unmap() == bound) || (host == "localhost" && bound.IsLoopback())
}

func portOf(u *url.URL) int {
	if port := u.Port(); port != "" {
		n, _ := strconv.Atoi(port)
		return n
	}
	if u.Scheme == "https" {
		return 443
	}
	return 80
}

// isLocal reports whether a host is this machine, without a name server.
func isLocal(host string) bool {
	if tlsconfig.Loopback(host) {
		return true
	}
	if name, err := os.Hostname(); err == nil && name == host {
		return true
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range own {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Unmap() == addr.Unmap() {
			return true
		}
	}
	return false
}

// public returns the URL of a worker for routers, or the reason why they cannot reach it. A
// loopback URL would lead each router to its own machine, and to another worker.
func (c *Config) public(f *LocalWorker) (public, unreachable string) {
	u, err := url.Parse(f.URL)
	if err != nil {
		return "", err.Error()
	}
	if !tlsconfig.Loopback(u.Hostname()) || tlsconfig.Loopback(c.Advertise) {
		return f.URL, ""
	}
	if f.Listen.IsValid() && !f.Listen.Addr().IsUnspecified() {
		return "", "it listens on " + f.Listen.Addr().String() + " only: start it with --host 0.0.0.0"
	}
	return u.Scheme + "://" + net.JoinHostPort(c.Advertise, strconv.Itoa(portOf(u))), ""
}

// AdvertiseTo returns the address of this machine on the route to addr, a host:port. It sends
// nothing. Without a route it returns the host's name, and for a loopback addr its host.
func AdvertiseTo(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil && tlsconfig.Loopback(host) {
		return host
	}
	if conn, err := net.Dial("udp", addr); err == nil {
		defer conn.Close()
		if local, err := netip.ParseAddrPort(conn.LocalAddr().String()); err == nil {
			return local.Addr().Unmap().String()
		}
	}
	if name, err := os.Hostname(); err == nil {
		return name
	}
	return "127.0.0.1"
}
