package service

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/coreos/go-systemd/v22/activation"
)

// ErrSockets is a socket from systemd that cannot be used.
var ErrSockets = errors.New("service: unusable socket")

// Names of descriptors. systemd names a socket after its unit where FileDescriptorName= does not.
const (
	clientsName  = "clients"
	operatorName = "operator"
	linkName     = "predecessor"
)

// successorEnv marks the environment of a Successor, and says whether systemd has its sockets too.
// Nobody knows the LISTEN_PID and WATCHDOG_PID of a process that is about to start.
const successorEnv = "WARMPATH_SUCCESSOR"

// Sockets are what a process was given at its start.
type Sockets struct {
	Clients, Operator net.Listener // nil: none was given
	Before            *Predecessor // nil: no other process serves the same sockets
	Kept              bool         // systemd has them too
}

// Take returns the sockets that the environment tells of, and clears it.
func Take() (Sockets, error) {
	of, succeeds := os.LookupEnv(successorEnv)
	if succeeds {
		for name, value := range map[string]string{successorEnv: "", "WATCHDOG_PID": "", "LISTEN_PID": strconv.Itoa(os.Getpid())} {
			_ = os.Unsetenv(name)
			if value != "" {
				_ = os.Setenv(name, value)
			}
		}
	}
	var s Sockets
	var errs []error
	for _, f := range activation.Files(true) {
		if succeeds && f.Name() == linkName {
			errs = append(errs, s.follow(f))
		} else {
			errs = append(errs, s.add(f))
		}
		_ = f.Close() // a copy is in use
	}
	s.Kept = s.Clients != nil && (!succeeds || of == ofSystemd)
	return s, errors.Join(errs...)
}

// Values of successorEnv.
const ofSystemd, ofItsPredecessor = "systemd", "predecessor"

// add takes one listener: the operators' by its name, the clients' by any other.
func (s *Sockets) add(f *os.File) error {
	l, err := net.FileListener(f)
	if err != nil {
		return fmt.Errorf("cannot use the socket %q: %w: %w", f.Name(), ErrSockets, err)
	}
	if _, tcp := l.(*net.TCPListener); !tcp {
		_ = l.Close()
		return fmt.Errorf("cannot use the socket %q: %w: want one of TCP, ListenStream=HOST:PORT", f.Name(), ErrSockets)
	}
	to := &s.Clients
	if f.Name() == operatorName {
		to = &s.Operator
	}
	if *to != nil {
		_ = l.Close()
		return fmt.Errorf("cannot use the socket %q: %w: there is one before it; one is for clients, and one with FileDescriptorName=%s for operators",
			f.Name(), ErrSockets, operatorName)
	}
	*to = l
	return nil
}

// follow begins to listen to the process before this one.
func (s *Sockets) follow(f *os.File) error {
	link, err := net.FileConn(f)
	if err != nil {
		return fmt.Errorf("cannot take over: %w", err)
	}
	s.Before = newPredecessor(link)
	return nil
}
