//go:build !linux

package upstream

import (
	"context"
	"net"
	"time"
)

// Watcher does nothing on this system: a client that has left is noticed by the next write to it.
type Watcher struct {
	slow time.Duration // see Grace
	done chan struct{}
}

// NewWatcher returns a Watcher that never calls back.
func NewWatcher() (*Watcher, error) { return &Watcher{done: make(chan struct{})}, nil }

// Run waits for the end of ctx.
func (w *Watcher) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Close does nothing.
func (w *Watcher) Close() error { return nil }

// Watch never calls gone.
func (w *Watcher) Watch(net.Conn, func()) (stop func(), err error) { return nothing, nil }

type registration struct{}

func (w *Watcher) register(net.Conn, leaver) (registration, error) { return registration{}, nil }

func (w *Watcher) forget(registration) {}
