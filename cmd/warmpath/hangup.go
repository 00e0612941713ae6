package main

import (
	"os"
	"os/signal"
	"syscall"
)

// onHangup calls do at each SIGHUP, with which tools that rotate logs ask for their files to be opened anew, until the returned function
// is called.
func onHangup(do func()) (stop func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		defer close(done)
		for range signals {
			do()
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}
