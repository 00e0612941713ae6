package codec

import "time"

const (
	// MaxMembers bounds the processes that a receiver remembers by their messages.
	MaxMembers = 256
	// MaxOwned bounds those with one token: it has as many connections.
	MaxOwned = 64
	// MaxLeft bounds the processes with one token that leave within LeftFor, before new names are
	// ignored: each has lines in the log, and a token may have any number of names.
	MaxLeft = 4 * MaxOwned
	// LeftFor is the time that MaxLeft is for.
	LeftFor = time.Minute
)

// Members counts the processes that a receiver knows by their messages, by the owners of their
// tokens. The zero value knows none. It is not safe for concurrent use.
type Members struct {
	present map[string]int // by owner
	count   int
	left    map[string]int // those that left since emptied, by owner; not of ""
	emptied time.Time
}

// Add adds a process with the token of owner, and reports whether the bounds allow it. Those of one
// token do not hold for "", the owner of all.
func (m *Members) Add(owner string) bool {
	if m.count >= MaxMembers || owner != "" && m.present[owner] >= MaxOwned || m.left[owner] >= MaxLeft {
		return false
	}
	if m.present == nil {
		m.present, m.left = map[string]int{}, map[string]int{}
	}
	m.present[owner]++
	m.count++
	return true
}

// Remove removes a process that was added.
func (m *Members) Remove(owner string) {
	m.count--
	if m.present[owner]--; m.present[owner] == 0 {
		delete(m.present, owner)
	}
	if owner != "" {
		m.left[owner]++
	}
}

// Expire forgets those that left, once a LeftFor. It is to be called every second or so.
func (m *Members) Expire(now time.Time) {
	if now.Sub(m.emptied) > LeftFor {
		clear(m.left)
		m.emptied = now
	}
}

// Shares returns the number of equal shares of a thing that process id and the members have
// together, and the number of owners among them. Each owner has the same part, however many
// processes it claims to have, and the processes of id's owner share that of id.
func (m *Members) Shares(id string) (shares, owners int) {
	own, owners := 1, 1
	for owner, n := range m.present {
		if Owned([]byte(id), owner) {
			own += n
		} else {
			owners++
		}
	}
	return own * owners, owners
}
