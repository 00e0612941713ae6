package sim

import (
	"sync"
	"sync/atomic"
)

// meeting names where two legs meet: a room of one prefill rank.
type meeting struct {
	rank int
	room int64
}

// seat is a prefill leg that has taken its place in a room. Its functions only queue
// work for the rank.
type seat struct {
	met  func(*join) // the decode worker has come
	left func()      // and gone
}

// join is a decode worker's connection to one room.
type join struct {
	have int          // leading tokens that the decode worker has already
	kv   chan handoff // capacity 1: the rank gives, the connection takes
	left atomic.Bool  // the decode worker gave up and said so
	lost atomic.Bool  // the connection broke
}

// handoff is what a prefill rank tells a decode rank beside keys and values.
type handoff struct {
	first          uint32
	cached, prompt int
}

// desk brings the legs of a prefill worker and its decode workers together, in whatever
// order they come.
type desk struct {
	mu    sync.Mutex
	seats map[meeting]seat
	joins map[meeting]*join
}

func newDesk() *desk {
	return &desk{seats: make(map[meeting]seat), joins: make(map[meeting]*join)}
}

// sit seats a prefill leg; false if the room is taken.
func (d *desk) sit(m meeting, s seat) bool {
	d.mu.Lock()
	_, taken := d.seats[m]
	if !taken {
		d.seats[m] = s
	}
	j := d.joins[m]
	d.mu.Unlock()
	if !taken && j != nil {
		s.met(j)
	}
	return !taken
}

// rise ends a prefill leg's stay.
func (d *desk) rise(m meeting) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.seats, m)
}

// come lets a decode worker into a room; false if another one is there.
func (d *desk) come(m meeting, j *join) bool {
	d.mu.Lock()
	_, taken := d.joins[m]
	if !taken {
		d.joins[m] = j
	}
	s, seated := d.seats[m]
	d.mu.Unlock()
	if !taken && seated {
		s.met(j)
	}
	return !taken
}

// part ends a decode worker's stay. Only one that says so, and does not just vanish, is
// noticed by the prefill leg before it sends.
func (d *desk) part(m meeting, j *join, told bool) {
	d.mu.Lock()
	delete(d.joins, m)
	s, seated := d.seats[m]
	d.mu.Unlock()
	if !told {
		j.lost.Store(true)
		return
	}
	j.left.Store(true)
	if seated {
		s.left()
	}
}

// roomsKept bounds the memory of rooms that were asked for: 16 MB.
const roomsKept = 1 << 20

// rooms remembers which rooms a worker's requests have named, over restarts.
type rooms struct {
	mu     sync.Mutex
	seen   map[int64]struct{}
	reused int
}

func (b *rooms) note(room int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, again := b.seen[room]; again {
		b.reused++
	}
	if b.seen == nil || len(b.seen) >= roomsKept {
		b.seen = make(map[int64]struct{})
	}
	b.seen[room] = struct{}{}
}
