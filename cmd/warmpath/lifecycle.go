package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
	"github.com/warmpath/warmpath/dataplane/service"
)

// lifecycle is a router's process from its start to its end or to its successor.
type lifecycle struct {
	sockets service.Sockets
	hasNATS bool          // the cluster's, which has a port that no successor is given
	open    chan struct{} // closed when connections may be accepted
	notify  *service.Notifier
	log     *slog.Logger
	ready   chan struct{} // closed when the router serves
	router  *router.Router

	mu        sync.Mutex
	successor *service.Successor // nil: there is none; guarded by mu
	stopping  bool               // guarded by mu
	succeeded chan struct{}      // closed when the successor has taken over
}

func newLifecycle(sockets service.Sockets, hasNATS bool, log *slog.Logger) *lifecycle {
	return &lifecycle{
		sockets: sockets, hasNATS: hasNATS, log: log, notify: service.NewNotifier(log),
		open: make(chan struct{}), ready: make(chan struct{}), succeeded: make(chan struct{}),
	}
}

// given returns the sockets for the router. Where clients wait in them, it is until it can serve.
func (l *lifecycle) given() *config.Sockets {
	s := &config.Sockets{Clients: l.sockets.Clients, Operator: l.sockets.Operator, Kept: l.sockets.Kept}
	if l.sockets.Before != nil || l.sockets.Kept {
		s.Open = l.open
	}
	return s
}

// run runs the router until ctx ends or a successor has taken over, and the last request is
// answered.
func (l *lifecycle) run(ctx context.Context) error {
	defer context.AfterFunc(ctx, l.stop)()
	var serving sync.WaitGroup
	defer serving.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	serving.Go(func() { l.serve(ctx) })
	return l.router.Run(ctx)
}

// stop tells that the router drains. A successor that has not taken over yet ends too.
func (l *lifecycle) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopping = true
	switch {
	case closed(l.succeeded): // systemd watches the successor
	case l.successor != nil:
		l.successor.Stop()
		fallthrough
	case l.sockets.Before == nil || closed(l.ready): // else systemd watches the one before this
		l.notify.Stopping("Answers the last requests.")
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// serve takes over from the process before this one, if any, and tells systemd how the router is.
func (l *lifecycle) serve(ctx context.Context) {
	if !l.await(ctx) {
		return
	}
	close(l.open)
	if l.sockets.Before != nil {
		l.sockets.Before.Succeed()
		l.log.Info("the upgrade is done: this process has taken over")
	}
	close(l.ready)
	l.notify.Ready(l.status())
	if !l.notify.Asked() {
		return
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	var watch sync.WaitGroup
	defer watch.Wait()
	watch.Go(func() {
		l.notify.Watchdog(ctx, func(ctx context.Context) error { return service.Accepts(ctx, l.router.Listeners()[0].Addr()) })
	})
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.succeeded:
			return
		case <-tick.C:
			l.notify.Status(l.status())
		}
	}
}

const (
	// statusEvery is for readers of `systemctl status`.
	statusEvery = 5 * time.Second
	// readyPoll is a small part of a router's start: 0.3 s.
	readyPoll = 20 * time.Millisecond
	// readyWithin is for probes and replays, which take about a second. Workers that load a model
	// take minutes, and nobody waits for them.
	readyWithin = 10 * time.Second
)

// await waits until the router can serve. One that succeeds another, which serves as long, does not
// begin without a model; false: ctx has ended, or the router has a successor already.
func (l *lifecycle) await(ctx context.Context) bool {
	var left <-chan struct{}
	if l.sockets.Before != nil {
		left = l.sockets.Before.Left()
	}
	within := time.NewTimer(readyWithin)
	defer within.Stop()
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	for late := false; ; {
		some, all, lacks := l.router.Ready()
		if all || late && (some || left == nil) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-l.succeeded:
			return false
		case <-left: // it has ended, and nobody serves
			return true
		case <-within.C:
			late = true
			switch {
			case some:
			case left != nil:
				l.log.Warn("the upgrade waits, and the earlier process serves on: this one can serve no model yet", "lacks", lacks)
			default:
				l.log.Warn("the router can serve no model yet", "lacks", lacks)
			}
		case <-poll.C:
		}
	}
}

// status is the router's state in words.
func (l *lifecycle) status() string {
	switch some, all, lacks := l.router.Ready(); {
	case all:
		return "Serves requests."
	case some:
		return "Serves requests, but: " + lacks + "."
	default:
		return "Can serve no model: " + lacks + "."
	}
}

// upgrade starts a successor, unless that makes no sense now.
func (l *lifecycle) upgrade() {
	if refusal := l.refusal(); refusal != "" {
		l.log.Warn("no upgrade", "because", refusal)
		return
	}
	resume := l.router.HoldSnapshots()
	s, err := service.StartSuccessor(l.router.Listeners(), l.sockets.Kept)
	if err != nil {
		resume()
		l.log.Error("no upgrade; this process serves on", "error", err)
		return
	}
	l.log.Info("the upgrade begins: another process starts, and takes over once it can serve", "pid", s.PID)
	l.mu.Lock()
	l.successor = s
	if l.stopping {
		s.Stop()
	}
	l.mu.Unlock()
	go l.succeed(s, resume)
}

// refusal is the reason why no successor may start now; "" where one may.
func (l *lifecycle) refusal() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.stopping:
		return "this process is ending"
	case l.successor != nil:
		return "another process is starting, or has taken over"
	case l.hasNATS:
		return "the cluster's NATS is in this process (--cluster-listen) and ends with it: restart, or run NATS apart"
	case l.sockets.Before != nil && !closed(l.ready):
		return "this process has not taken over itself yet"
	}
	return ""
}

// succeed waits for the successor and leaves the sockets to it.
func (l *lifecycle) succeed(s *service.Successor, resume func()) {
	err := s.Await()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil && l.stopping:
		return
	case err != nil:
		l.successor = nil
		resume()
		l.log.Error("the upgrade has failed; this process serves on", "error", err)
		return
	}
	close(l.succeeded)
	l.notify.Main(s.PID)
	l.router.HandOver()
	s.Leave()
	l.log.Info("the upgrade is done: this process ends with its last connection", "pid", s.PID)
}
