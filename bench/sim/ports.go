package sim

import (
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
)

// A worker that restarts binds its ports again. From 32768 on Linux gives them to connections,
// which may keep one for hours, and from 12000 on package freeport to processes of tests.
const (
	firstPort = 3_000
	lastPort  = 11_999
)

func anyPort() string { return strconv.Itoa(firstPort + rand.IntN(lastPort-firstPort+1)) }

// listen listens at addr, whose port may be 0 for any.
func listen(addr string) (l net.Listener, err error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port != "0" {
		return net.Listen("tcp", addr)
	}
	for range portAttempts {
		if l, err = net.Listen("tcp", net.JoinHostPort(host, anyPort())); err == nil {
			return l, nil
		}
	}
	return nil, err
}

// withPort gives an endpoint a port where it names none.
func withPort(endpoint string) string {
	if fixed(endpoint) {
		return endpoint
	}
	return endpoint[:strings.LastIndexByte(endpoint, ':')+1] + anyPort()
}
