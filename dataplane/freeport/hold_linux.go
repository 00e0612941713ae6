package freeport

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// hold binds a port of loopback. Only a socket bound without SO_REUSEADDR has the port for itself,
// and only with it afterwards does the kernel let others bind the port to listen.
func hold(port uint16) (release func(), err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot make a socket: %w", err)
	}
	release = sync.OnceFunc(func() { _ = unix.Close(fd) })
	if err = unix.Bind(fd, &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}}); err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err != nil {
		release()
		return nil, fmt.Errorf("cannot hold port %d: %w", port, err)
	}
	return release, nil
}
