package zmq

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// errEndpoint is wrapped in what is said of an endpoint that cannot be used.
var errEndpoint = errors.New("zmq: endpoint")

// parseEndpoint returns the network and address, as package net has them, of "tcp://host:port" or "ipc://path"; a path
// that begins with @ is an abstract name. bind allows the host "*" or none.
func parseEndpoint(endpoint string, bind bool) (network, address string, err error) {
	scheme, rest, ok := strings.Cut(endpoint, "://")
	switch {
	case !ok:
		return "", "", fmt.Errorf("%w %q: want tcp://host:port or ipc://path", errEndpoint, endpoint)
	case scheme == "ipc" && rest != "":
		return "unix", rest, nil
	case scheme == "ipc":
		return "", "", fmt.Errorf("%w %q: want a path behind ipc://", errEndpoint, endpoint)
	case scheme != "tcp":
		return "", "", fmt.Errorf("%w %q: subscriptions go over tcp:// and ipc://, not over %s://", errEndpoint, endpoint, scheme)
	}
	host, port, err := net.SplitHostPort(rest)
	if err != nil {
		return "", "", fmt.Errorf("%w %q: want tcp://host:port: %w", errEndpoint, endpoint, err)
	}
	if bind && host == "*" {
		host = ""
	}
	n, err := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil || n == 0:
		return "", "", fmt.Errorf("%w %q: %q is no port", errEndpoint, endpoint, port)
	case !bind && (host == "" || host == "*"):
		return "", "", fmt.Errorf("%w %q: it names no host to connect to", errEndpoint, endpoint)
	}
	return "tcp", net.JoinHostPort(host, port), nil
}
