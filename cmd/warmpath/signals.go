package main

import (
	"os"
	"os/signal"
	"syscall"
)

// signals are those that a service gets and that do not end it. It catches them from its first
// moment, since Go's default would end it without a drain, and obeys them once it runs.
type signals struct{ caught chan os.Signal }

func catchSignals(which ...os.Signal) signals {
	s := signals{make(chan os.Signal, 2*len(which))}
	signal.Notify(s.caught, which...)
	return s
}

// obey calls do at each signal, those before the call included, until the returned function is
// called.
func (s signals) obey(do func(os.Signal)) (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for sig := range s.caught {
			do(sig)
		}
	}()
	return func() {
		signal.Stop(s.caught)
		close(s.caught)
		<-done
	}
}

// upgradeSignal has a router start its successor, as nginx's does.
const upgradeSignal = syscall.SIGUSR2
