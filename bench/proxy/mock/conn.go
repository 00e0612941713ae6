package mock

import (
	"github.com/warmpath/warmpath/bench/proxy/loop"
	"github.com/warmpath/warmpath/bench/proxy/wire"
)

// conn is a connection of a router or client.
type conn struct {
	worker *worker
	conn   *loop.Conn

	busy   bool // an answer is under way
	last   bool // the connection ends with it
	ask    ask
	prompt int    // tokens
	cached int    // of them
	left   int    // events of the stream that are to come
	due    int64  // of the next one
	event  []byte // the bytes of each event
	next   loop.Timer
}

// Ready implements [loop.Handler]; connections are accepted, not dialled.
func (k *conn) Ready(*loop.Conn) {}

// Closed implements [loop.Handler].
func (k *conn) Closed(*loop.Conn, error) {
	if k.busy {
		k.worker.stats.Left++
	}
	k.gone()
}

func (k *conn) gone() {
	k.worker.in.loop.Disarm(&k.next)
	k.worker.stats.Connections--
}

// close ends the connection from this side.
func (k *conn) close() {
	k.busy = true // for ever
	k.conn.Close()
	k.gone()
}

// Data implements [loop.Handler].
func (k *conn) Data(c *loop.Conn, b []byte) (used int) {
	for !k.busy && used < len(b) {
		h, ok := wire.ParseHead(b[used:])
		if !ok {
			return k.refuse(b)
		}
		if h.Size == 0 { // not all of it is here
			return used
		}
		rest := b[used+h.Size:]
		body, size := rest, max(h.Length, 0)
		if h.Chunked {
			if body, size, ok = wire.Dechunk(rest); !ok {
				return k.refuse(b)
			}
		}
		if size < 0 || size > len(rest) {
			if h.Continue && len(rest) == 0 {
				_ = c.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
			}
			if !h.Chunked {
				c.Need(h.Size + size) // bytes beyond those used
			}
			return used
		}
		if !h.Chunked {
			body = rest[:size]
		}
		used += h.Size + size
		if !k.serve(&h, body) {
			return k.refuse(b)
		}
	}
	return used
}

// refuse ends a connection whose bytes are not HTTP: the next request has no findable beginning.
func (k *conn) refuse(b []byte) (used int) {
	k.worker.stats.Bad++
	_ = k.conn.Write([]byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
	k.close()
	return len(b)
}
