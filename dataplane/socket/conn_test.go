package socket_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/socket"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// socketPair returns a socket and the plain connection at its other end.
func socketPair(t testing.TB) (s net.Conn, peer *net.TCPConn) {
	t.Helper()
	near, far := testkit.TCPPair(t)
	return socket.New(near), far
}

// TestSocketMovesBytes sends more than any buffer of the kernel takes, both ways at once, in
// pieces of any size.
func TestSocketMovesBytes(t *testing.T) {
	const size = 16 << 20
	s, peer := socketPair(t)
	there, back := make([]byte, size), make([]byte, size)
	r, noise := rand.New(rand.NewPCG(1, 2)), rand.NewChaCha8([32]byte{1})
	_, _ = noise.Read(there)
	_, _ = noise.Read(back)
	errs := make(chan error, 3)
	go func() { _, err := peer.Write(back); errs <- err }()
	go func() {
		got := make([]byte, size)
		_, err := io.ReadFull(peer, got)
		if err == nil && !bytes.Equal(got, there) {
			err = errors.New("the peer got other bytes")
		}
		errs <- err
	}()
	go func() {
		sizes := rand.New(rand.NewPCG(3, 4))
		for rest := there; len(rest) > 0; {
			n := min(len(rest), sizes.IntN(1<<20))
			m, err := s.Write(rest[:n])
			if err != nil || m != n {
				errs <- errors.Join(io.ErrShortWrite, err)
				return
			}
			rest = rest[n:]
		}
		errs <- nil
	}()
	var got []byte
	for buf := make([]byte, 1<<16); len(got) < size; {
		n, err := s.Read(buf[:r.IntN(len(buf)+1)])
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, buf[:n]...)
	}
	if !bytes.Equal(got, back) {
		t.Error("the socket got other bytes")
	}
	for range 3 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestSocketErrors: errors are like those of a connection of the standard library.
func TestSocketErrors(t *testing.T) {
	tests := []struct {
		name  string
		cause func(s net.Conn, peer *net.TCPConn)
		read  bool
	}{
		{"end", func(_ net.Conn, peer *net.TCPConn) { peer.Close() }, true},
		{"reset", func(_ net.Conn, peer *net.TCPConn) { _ = peer.SetLinger(0); peer.Close() }, true},
		{"read deadline", func(s net.Conn, _ *net.TCPConn) { _ = s.SetReadDeadline(time.Now().Add(time.Millisecond)) }, true},
		{"write deadline", func(s net.Conn, _ *net.TCPConn) { _ = s.SetWriteDeadline(time.Now().Add(time.Millisecond)) }, false},
		{"write after reset", func(_ net.Conn, peer *net.TCPConn) { _ = peer.SetLinger(0); peer.Close() }, false},
		{"closed", func(s net.Conn, _ *net.TCPConn) { s.Close() }, true},
		{"write on closed", func(s net.Conn, _ *net.TCPConn) { s.Close() }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			end := func(plain bool) error {
				s, peer := socketPair(t)
				if plain {
					s = s.(interface{ NetConn() net.Conn }).NetConn()
				}
				go tt.cause(s, peer)
				do, buf := s.Write, make([]byte, 1<<16) // written until the buffers are full
				if tt.read {
					do = s.Read
				}
				for {
					if _, err := do(buf); err != nil {
						return err
					}
				}
			}
			want, got := end(true), end(false)
			for _, kind := range []error{io.EOF, net.ErrClosed, os.ErrDeadlineExceeded} {
				if errors.Is(want, kind) != errors.Is(got, kind) {
					t.Errorf("error %v, want one like %v", got, want)
				}
			}
			var a, b net.Error
			if errors.As(want, &a) != errors.As(got, &b) || a != nil && a.Timeout() != b.Timeout() {
				t.Errorf("error %v, want one like %v", got, want)
			}
		})
	}
}

func BenchmarkSocket(b *testing.B) {
	for _, plain := range []bool{false, true} {
		name := "socket"
		if plain {
			name = "plain"
		}
		b.Run(name, func(b *testing.B) {
			s, peer := socketPair(b)
			if plain {
				s = s.(interface{ NetConn() net.Conn }).NetConn()
			}
			go func() { _, _ = io.Copy(struct{ io.Writer }{peer}, struct{ io.Reader }{peer}) }()
			buf := make([]byte, 300)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Write(buf); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(s, buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
