package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"
)

// Left counts clients that left before the end of their answers.
type Left struct {
	Sending   int `json:"sending"`   // went with a part of the request sent
	Waiting   int `json:"waiting"`   // went before the answer began
	Listening int `json:"listening"` // went when some of the answer had come
	Refused   int `json:"refused"`   // could not connect, or were cut before they wanted to go
}

// Add counts those of another time too.
func (l *Left) Add(o Left) {
	l.Sending += o.Sending
	l.Waiting += o.Waiting
	l.Listening += o.Listening
	l.Refused += o.Refused
}

// Leave has clients come at cfg's rate until ctx ends; each goes at some moment before it has its
// answer, by a close or a reset. It needs a goroutine a client, so the rate should be tens a
// second.
func Leave(ctx context.Context, cfg Config) (l Left, err error) {
	if err := cfg.normal(); err != nil {
		return l, err
	}
	if cfg.Rate <= 0 {
		return l, fmt.Errorf("cannot leave at no rate: %w", ErrConfig)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	w := newWriter(&cfg)
	next := newArrivals(time.Now().UnixNano(), cfg.Rate, w.random)
	for i := 0; ; i++ {
		if !sleepUntil(ctx, time.Unix(0, next.due())) {
			break
		}
		next.step()
		body := w.unique(nil)
		request := append([]byte("POST "+cfg.API.path()+" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "+
			strconv.Itoa(len(body))+"\r\n\r\n"), body...)
		guest := guest{request: request, random: rand.New(rand.NewPCG(cfg.Seed, uint64(i))), timeout: cfg.Timeout}
		target := cfg.Targets[i%len(cfg.Targets)]
		wg.Go(func() {
			count := guest.visit(ctx, target, &l)
			mu.Lock()
			*count++
			mu.Unlock()
		})
	}
	wg.Wait()
	return l, nil
}

// sleepUntil reports whether ctx had not ended until then.
func sleepUntil(ctx context.Context, at time.Time) bool {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// guest is one client that does not stay.
type guest struct {
	request []byte
	random  *rand.Rand
	timeout time.Duration
}

// visit sends, and goes. It returns the count that is concerned.
func (g *guest) visit(ctx context.Context, target string, l *Left) *int {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", target)
	if err != nil {
		return &l.Refused
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(g.timeout))
	if tcp, ok := c.(*net.TCPConn); ok && g.random.IntN(2) == 0 {
		_ = tcp.SetLinger(0) // goes by a reset
	}
	kind := g.random.IntN(4)
	if kind == 0 {
		if _, err := c.Write(g.request[:g.random.IntN(len(g.request))]); err != nil {
			return &l.Refused
		}
		return &l.Sending
	}
	if _, err := c.Write(g.request); err != nil {
		return &l.Refused
	}
	if kind == 1 {
		return &l.Waiting
	}
	if _, err := io.CopyN(io.Discard, c, int64(1+g.random.IntN(2048))); err != nil && !errors.Is(err, io.EOF) {
		return &l.Refused
	}
	return &l.Listening
}
