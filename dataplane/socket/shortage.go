package socket

import (
	"errors"
	"syscall"
)

// Shortage reports whether a connection failed for lack of a descriptor, a port or memory on this
// machine. That says nothing of the peer: no worker would be left if it counted against each.
func Shortage(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}
