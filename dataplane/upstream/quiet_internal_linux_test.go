package upstream

import (
	"bytes"
	"net"
	"sync"
	"testing"
)

// TestQuietSendsWhereItWaits: a connection that was in use just now sends its request with the
// wait for the answer, any other before it; and a request without a wait was not sent.
func TestQuietSendsWhereItWaits(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	for _, hot := range []bool{false, true} {
		tr := NewTransport(Config{})
		tcp, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		worker, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		var served sync.WaitGroup
		served.Go(func() {
			got := make([]byte, 7)
			for n := 0; n < len(got); {
				m, err := worker.Read(got[n:])
				if n += m; err != nil {
					break
				}
			}
			if !bytes.Equal(got, []byte("request")) {
				t.Errorf("the worker got %q", got)
			}
			_, _ = worker.Write([]byte("answer"))
		})
		cn := newConn(tcp, tcp, poolKey{}, &tr.readers)
		cn.hot = hot
		cn.out.head = append(cn.out.head, "requ"...)
		cn.send([][]byte{[]byte("e"), []byte("st")})
		if cn.out.later != hot {
			t.Errorf("hot %v: sent later: %v", hot, cn.out.later)
		}
		if err := cn.in.fill(); err != nil || cn.in.buffered() == 0 || cn.out.later {
			t.Errorf("hot %v: fill: %v, %d bytes there", hot, err, cn.in.buffered())
		}
		if !cn.out.finish() {
			t.Errorf("hot %v: not sent", hot)
		}
		served.Wait()
		_, _ = cn.in.br.Discard(cn.in.buffered())

		cn.send([][]byte{[]byte("unsent")})
		cn.abort()
		if sent := cn.out.finish(); sent == hot {
			t.Errorf("hot %v: sent without a wait: %v", hot, sent)
		}
		cn.in.release()
		_ = worker.Close()
	}
}
