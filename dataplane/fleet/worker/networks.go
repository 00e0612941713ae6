package worker

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
)

// ErrNetwork is an address at which no worker may be.
var ErrNetwork = errors.New("worker: no worker may be at this address")

// Networks are the addresses at which workers may be; the zero value is all but unlikely.
type Networks []netip.Prefix

// unlikely are addresses that have no workers, and that give secrets to whoever asks: services of
// the clouds for the machine itself.
var unlikely = Networks{
	// Link-local: metadata of AWS, Azure, GCP and most others.
	netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("ff00::/8"), // multicast
	netip.MustParsePrefix("fd00:ec2::/32"), netip.MustParsePrefix("fd20:ce::/32"), // AWS, GCP
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle
}

// nat64 holds IPv4 addresses in its last four bytes (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// ParseNetworks reads addresses and networks in CIDR form.
func ParseNetworks(texts []string) (all Networks, err error) {
	for _, text := range texts {
		text = strings.TrimSpace(text)
		network, err := netip.ParsePrefix(text)
		if err != nil {
			addr, wrong := netip.ParseAddr(strings.Trim(text, "[]"))
			if wrong != nil {
				return nil, fmt.Errorf("cannot use network %q: %w: want an address or a network such as 10.0.0.0/8", text, err)
			}
			network = netip.PrefixFrom(addr.WithZone(""), addr.BitLen())
		}
		if addr := network.Addr(); addr.Is4In6() && network.Bits() >= 96 {
			network = netip.PrefixFrom(addr.Unmap(), network.Bits()-96)
		}
		all = append(all, network)
	}
	return all, nil
}

// Check returns an error where no worker may be at addr.
func (n Networks) Check(addr netip.Addr) error {
	addr = addr.WithZone("").Unmap()
	if nat64.Contains(addr) {
		bytes := addr.As16()
		addr = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	if len(n) > 0 && !n.Contains(addr) {
		return fmt.Errorf("%w: %s is not in --worker-allow", ErrNetwork, addr)
	}
	if len(n) == 0 && unlikely.Contains(addr) {
		return fmt.Errorf("%w: %s is a service of the machine, not a worker; name it in --worker-allow where it is one", ErrNetwork, addr)
	}
	return nil
}

// Contains reports whether an address is in one of the networks.
func (n Networks) Contains(addr netip.Addr) bool {
	return slices.ContainsFunc(n, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// CheckHost is Check for a host of a URL; a name passes, and is checked when it is dialed.
func (n Networks) CheckHost(host string) error {
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil {
		return nil //nolint:nilerr // it is a name
	}
	return n.Check(addr)
}

// CheckSpec checks the addresses that a spec has, as far as they are no names.
func (n Networks) CheckSpec(spec Spec) error {
	u, _, err := splitURL(spec.URL)
	if err != nil {
		return err
	}
	for _, host := range []string{u.Hostname(), spec.Bootstrap.Host} {
		if err := n.CheckHost(host); err != nil {
			return fmt.Errorf("cannot use worker %s: %w", spec.URL, err)
		}
	}
	return nil
}

// Control refuses a connection before it begins, for a net.Dialer: names are resolved by then.
func (n Networks) Control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("cannot check %q: %w: %w", address, ErrNetwork, err)
	}
	return n.Check(at.Addr())
}
