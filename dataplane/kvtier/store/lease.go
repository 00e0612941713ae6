package store

import (
	"context"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

const (
	// maxLease bounds the pins of a reader that does not release them.
	maxLease = time.Minute
	// expiryPeriod is the longest delay of an expiry. Readers watch their own clocks, so the
	// delay harms none of them.
	expiryPeriod = 250 * time.Millisecond
)

// lease pins pages until it is released or expires, whichever comes first.
type lease struct {
	entries []int32
	expires time.Time
}

// leases knows the leases of all readers.
type leases struct {
	pages  *pages
	now    func() time.Time
	counts *tally

	mu     sync.Mutex
	active map[*lease]struct{} // guarded by mu
}

func newLeases(p *pages, now func() time.Time) *leases {
	return &leases{pages: p, now: now, counts: p.counts, active: map[*lease]struct{}{}}
}

// get pins pages for d at most and appends the offset of each, or absent. The caller releases the
// lease, which is nil where all pages are absent.
func (l *leases) get(dst []uint64, ns uint32, hashes []proto.Hash, d time.Duration) ([]uint64, *lease) {
	one := &lease{expires: l.now().Add(min(d, maxLease))}
	dst, one.entries = l.pages.pin(dst, ns, hashes)
	if len(one.entries) == 0 {
		return dst, nil
	}
	l.mu.Lock()
	l.active[one] = struct{}{}
	l.mu.Unlock()
	return dst, one
}

// release ends a lease; nil and expired ones are ignored.
func (l *leases) release(one *lease) {
	l.mu.Lock()
	_, active := l.active[one]
	delete(l.active, one)
	l.mu.Unlock()
	if active {
		l.pages.unpin(one.entries)
	}
}

// run ends expired leases until ctx ends.
func (l *leases) run(ctx context.Context) {
	tick := time.NewTicker(expiryPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.expire(l.now())
		}
	}
}

// expire releases the leases that end before now.
func (l *leases) expire(now time.Time) {
	var over []*lease
	l.mu.Lock()
	for one := range l.active {
		if now.After(one.expires) {
			over = append(over, one)
			delete(l.active, one)
		}
	}
	l.mu.Unlock()
	for _, one := range over {
		l.counts.add(func(c *Stats) { c.Expired++ })
		l.pages.unpin(one.entries)
	}
}
