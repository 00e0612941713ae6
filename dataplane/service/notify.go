package service

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Notifier tells systemd of this process, as sd_notify(3) does. Where nobody listens it does
// nothing.
type Notifier struct {
	log    *slog.Logger
	warned sync.Once

	mu     sync.Mutex
	ready  bool   // guarded by mu
	status string // guarded by mu
}

// NewNotifier returns a Notifier.
func NewNotifier(log *slog.Logger) *Notifier { return &Notifier{log: log} }

// Asked reports whether somebody listens.
func (*Notifier) Asked() bool { return os.Getenv("NOTIFY_SOCKET") != "" }

func (n *Notifier) send(lines ...string) {
	if _, err := daemon.SdNotify(false, strings.Join(lines, "\n")); err != nil {
		n.warned.Do(func() { n.log.Warn("cannot notify systemd", "error", err) })
	}
}

// Ready tells that the process serves.
func (n *Notifier) Ready(status string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ready, n.status = true, status
	n.send(daemon.SdNotifyReady, "STATUS="+status)
}

// Status tells in words how the process is, where that has changed.
func (n *Notifier) Status(status string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if status != n.status {
		n.status = status
		n.send("STATUS=" + status)
	}
}

// Reload tells that settings are read again, by do. One that is not ready yet does not say so: the
// end of the reload would count as the end of the start.
func (n *Notifier) Reload(do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.ready || !n.Asked() {
		do()
		return
	}
	n.send(daemon.SdNotifyReloading, strings.TrimSpace(daemon.SdNotifyMonotonicUsec()))
	do()
	n.send(daemon.SdNotifyReady)
}

// Stopping tells that the process ends.
func (n *Notifier) Stopping(status string) { n.send(daemon.SdNotifyStopping, "STATUS="+status) }

// Main tells that another process is the service from now on, and no more of this one.
func (n *Notifier) Main(pid int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ready = false
	n.send(fmt.Sprintf("MAINPID=%d", pid))
}

// Watchdog keeps systemd from killing the process for as long as alive has no error, until ctx
// ends. Each call has half of WatchdogSec.
func (n *Notifier) Watchdog(ctx context.Context, alive func(context.Context) error) {
	within, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		n.log.Warn("cannot serve systemd's watchdog", "error", err)
	}
	if within <= 0 {
		return
	}
	tick := time.NewTicker(within / 3)
	defer tick.Stop()
	for {
		try, cancel := context.WithTimeout(ctx, within/2)
		err := alive(try)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			n.send(daemon.SdNotifyWatchdog)
		default:
			n.log.Error("this process does not serve: systemd's watchdog hears nothing", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Accepts returns an error unless this process accepts a connection of addr, one of its own
// listeners, and notices its end: the connection brings no request and has no reply, and counts
// nowhere.
func Accepts(ctx context.Context, addr net.Addr) error {
	to, ok := addr.(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("cannot connect to %s: %w", addr, ErrSockets)
	}
	if to.IP.IsUnspecified() {
		to = &net.TCPAddr{Port: to.Port} // the loopback
	}
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", to.String())
	if err != nil {
		return fmt.Errorf("cannot connect to this process: %w", err)
	}
	defer func() { _ = nc.Close() }()
	defer context.AfterFunc(ctx, func() { _ = nc.SetReadDeadline(time.Now()) })()
	if tcp, ok := nc.(*net.TCPConn); ok {
		err = tcp.CloseWrite()
	}
	if err == nil {
		// An error but for the deadline is the end of the connection.
		_, _ = nc.Read(make([]byte, 1))
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("a connection is not accepted: %w", err)
	}
	return nil
}
