package zmq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// errEndpoint is wrapped by every error about an endpoint that cannot be used.
var errEndpoint = errors.New("zmq: endpoint")

// parseEndpoint returns the network and address, in the form of package net, of
// "tcp://host:port" or "ipc://path". A path that begins with @ is an abstract socket name. To be
// bound, the host may be "*" or empty, and the port "*" or 0: the system picks a free one.
func parseEndpoint(endpoint string, bound bool) (network, address string, err error) {
	scheme, rest, ok := strings.Cut(endpoint, "://")
	switch {
	case !ok:
		return "", "", fmt.Errorf("%w %q: want tcp://host:port or ipc://path", errEndpoint, endpoint)
	case scheme == "ipc" && rest != "":
		return "unix", rest, nil
	case scheme == "ipc":
		return "", "", fmt.Errorf("%w %q: want a path behind ipc://", errEndpoint, endpoint)
	case scheme != "tcp":
		return "", "", fmt.Errorf("%w %q: streams use tcp:// and ipc://, not %s://", errEndpoint, endpoint, scheme)
	}
	host, port, err := net.SplitHostPort(rest)
	if err != nil {
		return "", "", fmt.Errorf("%w %q: want tcp://host:port: %w", errEndpoint, endpoint, err)
	}
	if bound && host == "*" {
		host = ""
	}
	anyPort := bound && (port == "*" || port == "0")
	if anyPort {
		port = "0"
	}
	n, err := strconv.ParseUint(port, 10, 16)
	switch {
	case !anyPort && (err != nil || n == 0):
		return "", "", fmt.Errorf("%w %q: %q is not a port", errEndpoint, endpoint, port)
	case !bound && (host == "" || host == "*"):
		return "", "", fmt.Errorf("%w %q: no host to connect to", errEndpoint, endpoint)
	}
	return "tcp", net.JoinHostPort(host, port), nil
}

// bindEndpoint listens where a publisher is told to, and returns the endpoint with the port
// that the system picked. "*" means IPv4 alone, as for SGLang's and libzmq's sockets.
func bindEndpoint(endpoint string) (net.Listener, string, error) {
	network, address, err := parseEndpoint(endpoint, true)
	if err != nil {
		return nil, "", err
	}
	if strings.HasPrefix(address, ":") && network == "tcp" {
		network = "tcp4"
	}
	config := net.ListenConfig{KeepAliveConfig: keepaliveConfig}
	l, err := bind(config, network, address)
	if err != nil {
		return nil, "", err
	}
	if network == "unix" {
		return l, endpoint, nil
	}
	return l, "tcp://" + l.Addr().String(), nil
}

// bind listens. The socket file of a process that died without removing it is replaced, as libzmq
// does; libzmq would also take the file away from a process that still listens.
func bind(config net.ListenConfig, network, address string) (net.Listener, error) {
	l, err := config.Listen(context.Background(), network, address)
	if network != "unix" || strings.HasPrefix(address, "@") || !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	conn, failed := net.Dial(network, address)
	if failed == nil {
		_ = conn.Close()
	}
	if !errors.Is(failed, syscall.ECONNREFUSED) || os.Remove(address) != nil {
		return nil, err
	}
	return config.Listen(context.Background(), network, address)
}
