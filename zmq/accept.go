package zmq

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// accept serves each connection of l on a goroutine of its own until ctx is done, then closes l
// and returns after the last of them. Connections beyond limit are closed at once.
func accept(ctx context.Context, l net.Listener, limit int, serve func(net.Conn)) {
	release := closeWhenDone(ctx, l)
	defer release()
	var conns sync.WaitGroup
	defer conns.Wait()
	slots := make(chan struct{}, limit)
	for ctx.Err() == nil {
		conn, err := l.Accept()
		if err != nil { // The end, or the process is out of file descriptors.
			sleep(ctx, reconnectMax)
			continue
		}
		select {
		case slots <- struct{}{}:
			conns.Go(func() {
				defer func() { <-slots }()
				serve(conn)
			})
		default:
			_ = conn.Close()
		}
	}
}

// closeWhenDone closes c when ctx is done or release is called. No goroutine remains after
// release has returned.
func closeWhenDone(ctx context.Context, c io.Closer) (release func()) {
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = c.Close()
		close(closed)
	})
	return func() {
		if !stop() {
			<-closed
		}
		_ = c.Close()
	}
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
