package upstream_test

import (
	"net"

	"golang.org/x/sys/unix"
)

// shrinkBacklog makes the accept queue of ln as short as it gets.
func shrinkBacklog(ln *net.TCPListener) (err error) {
	raw, err := ln.SyscallConn()
	if err != nil {
		return err
	}
	if cerr := raw.Control(func(fd uintptr) { err = unix.Listen(int(fd), 0) }); cerr != nil {
		return cerr
	}
	return err
}
