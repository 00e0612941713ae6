//go:build !linux

package upstream_test

import (
	"errors"
	"net"
)

func shrinkBacklog(*net.TCPListener) error { return errors.ErrUnsupported }
