package ingress

import (
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// roster holds the open connections of a Server. Its owner has the lock.
type roster struct {
	all     []*Client // in no order
	hand    int       // in all: where the next search begins
	spare   []*Client // of all: connections beyond the limit, the oldest first
	closing int       // of all: closed to make room
	byAddr  map[netip.Addr]int
}

// place is a connection's in the roster.
type place struct {
	at      int        // in all; guarded by Server.mu, as is closing
	closing bool       // counted as such
	addr    netip.Addr // counted in byAddr; the zero value is not
	spare   bool       // it was accepted beyond the limit; written by its goroutine under Server.mu
	// since is when the wait for a request began, in nanoseconds.
	since atomic.Int64
}

// waitsFrom notes the begin of a wait for a request.
func (p *place) waitsFrom(now time.Time) { p.since.Store(now.UnixNano()) }

// searchLimit bounds the search for a connection that waits: each connection that is accepted at
// the limit pays for one.
const (
	searchLimit = 512
	claimTries  = 3
)

func (r *roster) add(cl *Client) {
	cl.place.at = len(r.all)
	r.all = append(r.all, cl)
	if cl.place.addr.IsValid() {
		if r.byAddr == nil {
			r.byAddr = make(map[netip.Addr]int)
		}
		r.byAddr[cl.place.addr]++
	}
	if cl.place.spare {
		r.spare = append(r.spare, cl)
	}
}

func (r *roster) remove(cl *Client) {
	last := len(r.all) - 1
	r.all[cl.place.at] = r.all[last]
	r.all[cl.place.at].place.at = cl.place.at
	r.all[last] = nil
	r.all = r.all[:last]
	if a := cl.place.addr; a.IsValid() {
		if r.byAddr[a]--; r.byAddr[a] == 0 {
			delete(r.byAddr, a)
		}
	}
	if cl.place.closing {
		r.closing--
	}
	r.noSpare(cl)
}

// noSpare takes a connection out of those beyond the limit; false: it is not one of them.
func (r *roster) noSpare(cl *Client) bool {
	i := slices.Index(r.spare, cl)
	if i >= 0 {
		r.spare = slices.Delete(r.spare, i, i+1)
	}
	return i >= 0
}

// counted is the number of connections that the limit is for.
func (r *roster) counted() int { return len(r.all) - len(r.spare) - r.closing }

// close counts a connection as closed before its goroutine has ended.
func (r *roster) close(cl *Client) {
	r.noSpare(cl)
	if !cl.place.closing {
		cl.place.closing = true
		r.closing++
	}
}

// claim returns a connection that waits for a request, for its place to be given to another one,
// nil where none was found. Those that never sent a byte go first, then those that have waited
// longest.
func (r *roster) claim() *Client {
	for range claimTries {
		var best *Client
		for range min(len(r.all), searchLimit) {
			if r.hand++; r.hand >= len(r.all) {
				r.hand = 0
			}
			cl := r.all[r.hand]
			if cl.state.Load() == clientWaits && !cl.place.spare && (best == nil || waitsBefore(cl, best)) {
				best = cl
			}
		}
		if best == nil {
			return nil
		}
		if claim(best) { // else its request has begun
			r.close(best)
			return best
		}
	}
	return nil
}

// claim keeps a connection that waits for a request from beginning one; false: it does not wait.
// The caller closes it.
func claim(cl *Client) bool { return cl.state.CompareAndSwap(clientWaits, clientClosed) }

// waitsBefore reports whether cl gives up its place before other does.
func waitsBefore(cl, other *Client) bool {
	if silent := cl.silent.Load(); silent != other.silent.Load() {
		return silent
	}
	return cl.place.since.Load() < other.place.since.Load()
}

// addressOf returns the address that counts connections.
func addressOf(nc net.Conn) netip.Addr {
	tcp, ok := nc.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return NetworkOf(tcp.AddrPort().Addr().Unmap())
}

// NetworkOf returns the address by which a host is known: of IPv6, whose hosts have as many as they
// want, the network.
func NetworkOf(addr netip.Addr) netip.Addr {
	addr = addr.WithZone("")
	if addr.Is6() {
		if network, err := addr.Prefix(64); err == nil {
			addr = network.Addr()
		}
	}
	return addr
}
