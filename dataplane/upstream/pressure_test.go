package upstream_test

import (
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/ingress/ingresstest"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
)

// TestSlowReaderHoldsTheWorkerBack: bytes that a client does not read stay with the worker,
// except for those in sockets, and the router's memory does not grow.
func TestSlowReaderHoldsTheWorkerBack(t *testing.T) {
	tlstest.OverBoth(t, testSlowReaderHoldsTheWorkerBack)
}

func testSlowReaderHoldsTheWorkerBack(t *testing.T) {
	const (
		mayPass   = 64 << 20        // four socket buffers, each of 6 MB at most by Linux' defaults
		size      = mayPass * 5 / 4 // more takes a slow machine with the race detector minutes, most of it to encrypt
		mayRemain = 8 << 20
	)
	for name, head := range map[string]string{"fixed": fmt.Sprintf("Content-Length: %d\r\n", size), "chunked": "Transfer-Encoding: chunked\r\n"} {
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int64
			w := startWorker(t, func(_ int, p *peer) {
				p.request()
				p.send("HTTP/1.1 200 OK\r\n" + head + "\r\n")
				if name == "chunked" {
					p.send(fmt.Sprintf("%x\r\n", size))
				}
				for piece := make([]byte, 64<<10); sent.Load() < size; {
					n, err := p.Write(piece)
					if sent.Add(int64(n)); err != nil {
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
			ingresstest.Within(t, "standstill", func() {
				if n := settled(&sent); n > mayPass {
					t.Errorf("the worker could send %d bytes to a client that reads none, want at most %d", n, mayPass)
				}
			})
			// What the tests before left behind goes sooner or later; what the router keeps does not.
			for end := time.Now().Add(ingresstest.Patience); heap()-before > mayRemain; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("the heap grew by %d bytes, want at most %d", heap()-before, mayRemain)
				}
			}
			ingresstest.Within(t, "answer", func() {
				if n, err := io.Copy(io.Discard, resp.Body); n != size || err != nil {
					t.Errorf("the client got %d bytes, %v; want %d", n, err, size)
				}
				wantErr(t, "Closed", <-obs.closed, nil)
			})
		})
	}
}

// settled waits until n has grown and grows no more. On a machine that stalls for so long it
// returns less, which no test takes for a failure.
func settled(n *atomic.Int64) int64 {
	for {
		before := n.Load()
		time.Sleep(500 * time.Millisecond)
		if now := n.Load(); now == before && now > 0 {
			return now
		}
	}
}

// counter is an Observer that keeps nothing.
type counter struct{ closed chan error }

func (o *counter) Body([]byte)         {}
func (o *counter) Broken(error) []byte { return nil }

func (o *counter) Ended() []byte    { return nil }
func (o *counter) Closed(err error) { o.closed <- err }

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
