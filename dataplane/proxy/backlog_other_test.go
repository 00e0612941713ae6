//go:build !linux

package proxy_test

import (
	"errors"
	"net"
)

func shrinkBacklog(*net.TCPListener) error { return errors.ErrUnsupported }
