//go:build !linux

package ingress

import (
	"context"
	"net"
)

// Watcher does nothing on this system: the next write to a client that has left fails.
type Watcher struct{}

// NewWatcher returns a Watcher that never tells of anything.
func NewWatcher() (*Watcher, error) { return &Watcher{}, nil }

// Run waits for the end of ctx.
func (w *Watcher) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Close does nothing.
func (w *Watcher) Close() error { return nil }

type registration struct{}

func (w *Watcher) register(net.Conn, leaver) (registration, error) { return registration{}, nil }

func (w *Watcher) forget(registration) {}
