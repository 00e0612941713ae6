//go:build !linux

package upstream

import "net"

// newSocket leaves a connection as it is.
func newSocket(nc net.Conn) net.Conn { return nc }
