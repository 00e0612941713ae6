//go:build !linux

package ingress

import "net"

// writeSome leaves p to Write.
func writeSome(net.Conn, []byte) (int, error) { return 0, nil }

// untaken is not known here: what the socket takes is progress.
func untaken(net.Conn) int { return 0 }

// unread is not known here.
func unread(net.Conn) bool { return false }
