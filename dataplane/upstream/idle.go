package upstream

import (
	"sync"
	"sync/atomic"
	"time"
)

// idleList holds the idle connections of one target, the most recently used last. That one is
// taken first; the others age until they are closed.
type idleList struct {
	renewed atomic.Uint64 // how often; connections from before are not kept

	mu     sync.Mutex
	conns  []*conn // guarded by mu; ordered by idleSince
	closed bool    // guarded by mu
	used   bool    // since the last prune; guarded by mu
}

// get takes the youngest connection, nil if there is none that was used at or after notBefore.
func (l *idleList) get(notBefore time.Time) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = true
	n := len(l.conns) - 1
	if n < 0 || l.conns[n].idleSince.Before(notBefore) {
		// If the youngest is too old, all are: Sweep or the next put closes them.
		return nil
	}
	cn := l.conns[n]
	l.conns[n] = nil
	l.conns = l.conns[:n]
	return cn
}

// put adds cn and returns a connection to close: cn itself if the list was closed, or renewed since
// its dial, or the oldest if it is over age or over the limit. One in, at most one out: the list
// shrinks under traffic and no call pays for many closes.
func (l *idleList) put(cn *conn, notBefore time.Time, limit int) (dead *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || cn.renewed != l.renewed.Load() {
		return cn
	}
	if n := len(l.conns); n > 0 && (n >= limit || l.conns[0].idleSince.Before(notBefore)) {
		dead = l.conns[0]
		copy(l.conns, l.conns[1:])
		l.conns[n-1] = cn
		return dead
	}
	l.conns = append(l.conns, cn)
	return nil
}

// drop closes the connections that were last used before the given time; all of them if it is
// zero.
func (l *idleList) drop(before time.Time) {
	l.mu.Lock()
	n := len(l.conns)
	if !before.IsZero() {
		for n = 0; n < len(l.conns) && l.conns[n].idleSince.Before(before); n++ {
		}
	}
	dead := append([]*conn(nil), l.conns[:n]...)
	kept := copy(l.conns, l.conns[n:])
	clear(l.conns[kept:])
	l.conns = l.conns[:kept]
	l.mu.Unlock()
	for _, cn := range dead {
		cn.abort()
	}
}

// close drops all and refuses later ones.
func (l *idleList) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.drop(time.Time{})
}

// prune closes the list if it is empty and was not used since the last prune.
func (l *idleList) prune() (ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = l.closed || len(l.conns) == 0 && !l.used
	l.used = false
	return l.closed
}

func (l *idleList) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}
