package upstream

import "net"

// unwrap finds the TCP connection below wrappers (TLS, a listener's own type); nil if there is none.
func unwrap(nc net.Conn) *net.TCPConn {
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

// nothing is the stop of a watch that could not be set up.
func nothing() {}

// leaver is told, once, that a client has left.
type leaver interface{ left() }
