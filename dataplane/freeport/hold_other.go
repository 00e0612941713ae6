//go:build !linux

package freeport

import (
	"fmt"
	"net"
)

// hold only looks whether a port of loopback is free.
func hold(port uint16) (release func(), err error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, fmt.Errorf("cannot hold port %d: %w", port, err)
	}
	return func() {}, l.Close()
}
