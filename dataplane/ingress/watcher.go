package ingress

import "net"

// leaver is told, once, that a client has left.
type leaver interface{ left() }

// tcpBelow finds the TCP connection below wrappers (TLS, a listener's own type); nil if there
// is none.
func tcpBelow(nc net.Conn) *net.TCPConn {
	for {
		switch c := nc.(type) {
		case *net.TCPConn:
			return c
		case interface{ NetConn() net.Conn }:
			nc = c.NetConn()
		default:
			return nil
		}
	}
}
