package discover_test

import (
	"bytes"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// relay passes connections on to an etcd, until it is told to hold them open and pass nothing.
type relay struct {
	t           *testing.T
	listener    net.Listener
	to          string
	beforeWatch func() // called once, before the first watch is asked for

	mu     sync.Mutex
	frozen bool // all, new ones too
	links  map[*link]bool
	done   sync.WaitGroup
}

// link is one connection.
type link struct {
	a, b   net.Conn
	asked  bool // for a watch
	watch  bool // which was answered
	frozen bool
}

func startRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &relay{t: t, listener: l, to: to, links: map[*link]bool{}}
	r.done.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

func (r *relay) addr() string { return r.listener.Addr().String() }

func (r *relay) accept() {
	for {
		a, err := r.listener.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp", r.to)
		if err != nil {
			a.Close()
			continue
		}
		k := &link{a: a, b: b}
		r.mu.Lock()
		r.links[k] = true
		r.mu.Unlock()
		r.done.Go(func() { r.pass(k, a, b) })
		r.done.Go(func() { r.pass(k, b, a) })
	}
}

func (r *relay) pass(k *link, from, to net.Conn) {
	defer func() {
		from.Close()
		to.Close()
		r.mu.Lock()
		delete(r.links, k)
		r.mu.Unlock()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !r.see(k, from == k.a, buf[:n]) {
			if _, failed := to.Write(buf[:n]); failed != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// see inspects data to be passed on, and reports whether it is held.
func (r *relay) see(k *link, request bool, data []byte) (held bool) {
	r.mu.Lock()
	before := r.beforeWatch
	switch {
	case request && bytes.Contains(data, []byte("POST /v3/watch")):
		k.asked, r.beforeWatch = true, nil
	default:
		before = nil
		k.watch = k.watch || (k.asked && !request)
	}
	held = r.frozen || k.frozen
	r.mu.Unlock()
	if before != nil {
		before()
	}
	return held
}

// live is how many connections there are.
func (r *relay) live() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.links)
}

// freeze holds all connections, or passes again.
func (r *relay) freeze(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = on
}

// freezeLinks holds the connections that there are.
func (r *relay) freezeLinks() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.links {
		k.frozen = true
	}
}

// freezeWatches holds the connections that have a watch now.
func (r *relay) freezeWatches() {
	r.t.Helper()
	await(r.t, "a watch", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		found := false
		for k := range r.links {
			if k.watch && !k.frozen {
				k.frozen, found = true, true
			}
		}
		return found
	})
}

func (r *relay) close() {
	r.listener.Close()
	r.mu.Lock()
	for k := range r.links {
		k.a.Close()
		k.b.Close()
	}
	r.mu.Unlock()
	r.done.Wait()
}
