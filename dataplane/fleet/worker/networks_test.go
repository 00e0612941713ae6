package worker_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

func TestNetworks(t *testing.T) {
	for _, tt := range []struct {
		allow     []string
		good, bad []string
	}{
		{
			nil,
			[]string{"127.0.0.1", "::1", "10.1.2.3", "192.168.0.1", "100.64.0.1", "0.0.0.0", "203.0.113.9", "fd00::1", "2001:db8::1", "::ffff:10.0.0.1"},
			[]string{
				"169.254.169.254", "169.254.170.2", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "fe80::1", "fe80::1%eth0", "224.0.0.1", "ff02::1",
				"fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192",
			},
		},
		{
			[]string{"10.0.0.0/8", " 127.0.0.1", "[fd00::7]", "::ffff:192.168.0.0/112"},
			[]string{"10.1.2.3", "127.0.0.1", "fd00::7", "192.168.9.9", "::ffff:10.0.0.1"},
			[]string{"11.0.0.1", "127.0.0.2", "fd00::8", "::1", "0.0.0.0", "169.254.169.254", "192.169.0.1"},
		},
		{[]string{"169.254.0.0/16"}, []string{"169.254.169.254"}, []string{"10.0.0.1"}}, // two machines with one cable
		{[]string{"0.0.0.0/0", "::/0"}, []string{"169.254.169.254", "fe80::1%eth0", "::1", "10.0.0.1"}, nil},
	} {
		n, err := worker.ParseNetworks(tt.allow)
		require.NoError(t, err)
		for _, addr := range tt.good {
			assert.NoError(t, n.Check(netip.MustParseAddr(addr)), "%s by %q", addr, tt.allow)
		}
		for _, addr := range tt.bad {
			err := n.Check(netip.MustParseAddr(addr))
			require.ErrorIs(t, err, worker.ErrNetwork, "%s by %q", addr, tt.allow)
			assert.ErrorContains(t, err, "--worker-allow")
			require.ErrorIs(t, n.CheckSpec(worker.Spec{URL: "http://" + bracketed(addr) + ":80"}), worker.ErrNetwork)
			require.ErrorIs(t, n.CheckSpec(worker.Spec{URL: "http://name:80", Bootstrap: worker.Bootstrap{Host: addr}}), worker.ErrNetwork)
		}
	}
	for _, bad := range []string{"", "ten", "10.0.0.0/33", "localhost"} {
		_, err := worker.ParseNetworks([]string{bad})
		assert.Error(t, err, bad)
	}
}

// bracketed returns an address as URLs have it.
func bracketed(addr string) string {
	a := netip.MustParseAddr(addr)
	if a.Is4() {
		return addr
	}
	return "[" + a.WithZone("").String() + "]"
}
