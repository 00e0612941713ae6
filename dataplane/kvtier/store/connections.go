package store

import (
	"context"
	"net"
	"sync"
	"time"
)

// serveConnections calls handle for each connection of a listener, in a goroutine that ends with
// it, until ctx ends and all of them have ended. Connections beyond most are closed at once.
func serveConnections(ctx context.Context, l net.Listener, most int, handle func(net.Conn)) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]struct{}{} // guarded by mu
	defer all.Wait()
	defer func() { // none comes any more
		mu.Lock()
		defer mu.Unlock()
		for c := range open {
			c.Close()
		}
	}()
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		mu.Lock()
		full := len(open) >= most
		if !full {
			open[c] = struct{}{}
		}
		mu.Unlock()
		if full {
			c.Close()
			continue
		}
		all.Go(func() {
			handle(c)
			c.Close()
			mu.Lock()
			delete(open, c)
			mu.Unlock()
		})
	}
}

// writeFrame writes a message.
func writeFrame(c net.Conn, deadline time.Time, h header, body []byte) error {
	if err := c.SetWriteDeadline(deadline); err != nil {
		return err
	}
	_, err := c.Write(h.frame(body))
	return err
}
