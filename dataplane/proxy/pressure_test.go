package proxy_test

import (
	"errors"
	"io"
	"os"
	"runtime"
	"testing"
	"time"
)

// TestSlowReaderHoldsTheWorkerBack: what a client does not read stays with the worker, but for what sockets take, and the
// router's memory does not grow.
func TestSlowReaderHoldsTheWorkerBack(t *testing.T) {
	const (
		size      = 256 << 20
		mayPass   = 64 << 20 // four socket buffers, each of 6 MB at most by Linux' defaults
		mayRemain = 8 << 20
	)
	for name, head := range map[string]string{"fixed": "Content-Length: 268435456\r\n", "chunked": "Transfer-Encoding: chunked\r\n"} {
		t.Run(name, func(t *testing.T) {
			sent := make(chan int, 1)
			w := startWorker(t, func(_ int, p *peer) {
				p.request()
				p.send("HTTP/1.1 200 OK\r\n" + head + "\r\n")
				if name == "chunked" {
					p.send("10000000\r\n")
				}
				total, piece := 0, make([]byte, 64<<10)
				for total < size {
					p.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
					n, err := p.Write(piece)
					total += n
					if errors.Is(err, os.ErrDeadlineExceeded) {
						break
					}
				}
				sent <- total
				p.SetWriteDeadline(time.Time{})
				for total < size {
					n, err := p.Write(piece[:min(len(piece), size-total)])
					if total += n; err != nil {
						return
					}
				}
				if name == "chunked" {
					p.send("\r\n0\r\n\r\n")
				}
			})
			obs := &counter{closed: make(chan error, 1)}
			c := dialRouter(t, startRouter(t, w.addr(), obs))
			before := heap()
			resp := c.ask(t, "POST")
			within(t, "answer", func() {
				if n := <-sent; n > mayPass {
					t.Errorf("the worker could send %d bytes to a client that reads none, want at most %d", n, mayPass)
				}
				if grown := heap() - before; grown > mayRemain {
					t.Errorf("the heap grew by %d bytes, want at most %d", grown, mayRemain)
				}
				if n, err := io.Copy(io.Discard, resp.Body); n != size || err != nil {
					t.Errorf("the client got %d bytes, %v; want %d", n, err, size)
				}
				wantErr(t, "Closed", <-obs.closed, nil)
			})
		})
	}
}

// counter is an Observer that keeps nothing.
type counter struct{ closed chan error }

func (o *counter) Body([]byte)         {}
func (o *counter) Broken(error) []byte { return nil }
func (o *counter) Closed(err error)    { o.closed <- err }

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
