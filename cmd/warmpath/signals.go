package main

import (
	"os"
	"os/signal"
	"syscall"
)

// hangups are the SIGHUPs that a service gets. It catches them from its first moment, since Go's
// default would end it without a drain, and serves them once it runs.
type hangups struct{ caught chan os.Signal }

func catchHangups() hangups {
	h := hangups{make(chan os.Signal, 1)}
	signal.Notify(h.caught, syscall.SIGHUP)
	return h
}

// each calls do at each SIGHUP, those before the call included, until the returned function is
// called.
func (h hangups) each(do func()) (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range h.caught {
			do()
		}
	}()
	return func() {
		signal.Stop(h.caught)
		close(h.caught)
		<-done
	}
}
