package main

import (
	"os"
	"os/signal"
	"syscall"
)

// onHangup calls do at each SIGHUP until the returned function is called. Log rotation sends SIGHUP
// to have files opened anew.
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
