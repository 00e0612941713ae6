package sidecar

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// UCX uses the interface of the address that the cluster knows.
func TestNetDevices(t *testing.T) {
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Skip(err)
	}
	for i := range interfaces {
		addresses, err := interfaces[i].Addrs()
		if err != nil {
			continue
		}
		for _, a := range addresses {
			if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() { // several interfaces may have the same link-local one
				list := strings.Split(netDevices(n.IP.String()), ",")
				assert.Equal(t, interfaces[i].Name, list[len(list)-1])
			}
		}
	}
	assert.Empty(t, netDevices("192.0.2.1"), "an address that no machine has")
	assert.Empty(t, netDevices("a name"))
	local := netDevices("127.0.0.1")
	require.NotEmpty(t, local)
	assert.Equal(t, local, netDevices("localhost"), "a name has the interface of its address")
}
