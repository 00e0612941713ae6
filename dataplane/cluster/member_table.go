package cluster

import (
	"time"
)

// Times of the lease. With them a process that dies is out of every view 2.0 to 2.6 s after: its last beat is up to beatEvery
// old, and the lease's end is seen at the next PONG.
const (
	beatEvery = 500 * time.Millisecond
	pingEvery = 250 * time.Millisecond
	// Lease is how long a record stays in the views without a beat, while NATS is heard.
	Lease = 2250 * time.Millisecond // 4 beats may be late: by the network, or by a machine that does other things
	// deafAfter is the time between two PONGs from which we were deaf: beats may lie anywhere, so leases begin anew. It is below
	// Lease, so that the wait for one PONG never ends a lease, and above what a loaded machine takes to schedule a process.
	deafAfter = time.Second
	// patience is how long a beat may name a record that we do not have: the bucket's watch is behind core NATS by ms, and by
	// seconds where all have just come. What is asked for after it is written again, and where that does not come within
	// deadWatch the buckets are read again, which costs more the more there are.
	missingAfter   = 2 * time.Second
	watchDeadAfter = 6 * time.Second
	// searchAgain is how long the first search for a record goes on before the next one begins; each goes on for twice as long.
	searchAgain = 20 * time.Second
	// settle is how long records that lie in the bucket have to beat before a view counts as whole: each living one beats twice.
	settle = 2*beatEvery + pingEvery
	// forget is when the record of a silent process is dropped. A stopped one that goes on within it needs no record again.
	forget = 20 * time.Minute
)

// member is one process's record with what was heard of it.
type member struct {
	rec      *record       // nil: beats alone
	node     *Node         // of rec with the numbers of the last beat; nil for a router
	shown    bool          // in the views: it was heard, and its lease has not ended
	heard    time.Duration // the last beat or write
	missing  time.Duration // since then beats name a record that is not rec; 0: they do not
	wanted   string        // instance of the missing record
	asked    int           // stages of the search for it, since missing
	searches int           // that ended without it
	foreign  bool          // what lies in the bucket cannot be read: there is nothing to ask for
	pass     uint64        // of the last snapshot that it was in
}

// table holds what was heard of others, ourselves among them. It is a state machine without clock and I/O; its time is that of
// the PONGs, and begins at 1 so that 0 means never.
type table struct {
	now     time.Duration
	members map[key]*member
	pass    uint64        // counts snapshots of the bucket
	loading bool          // a snapshot is being read
	dead    bool          // since the last snapshot began: a record that was asked for did not come
	synced  time.Duration // end of the last snapshot; 0: none, or the connection was lost since
	changed bool          // since the flag was last taken back, in what views show
	minor   bool          // the same of numbers alone
}

func newTable() *table { return &table{now: 1, members: map[key]*member{}} }

// get returns the member under k, and makes it where it is new.
func (t *table) get(k key) *member {
	m := t.members[k]
	if m == nil {
		m = &member{heard: t.now}
		t.members[k] = m
	}
	return m
}

// put takes a record in as the bucket gives it. What comes after the snapshot was written just now, so it counts as a beat.
func (t *table) put(k key, rec *record) {
	m := t.get(k)
	m.pass = t.pass
	same := m.rec != nil && m.rec.Instance == rec.Instance && m.rec.Seq == rec.Seq
	if !same {
		m.rec, m.node = rec, rec.Node
		t.changed = t.changed || m.shown
		m.missing, m.foreign = 0, false
	}
	switch {
	case !t.loading:
		t.hear(m)
	case !m.shown && !same:
		m.heard = t.now // from here on it has a lease to be heard in
	}
}

// hear renews a lease.
func (t *table) hear(m *member) {
	m.heard = t.now
	if !m.shown && m.rec != nil {
		m.shown, t.changed = true, true
	}
}

// remove takes a record out because its owner, or an operator, did.
func (t *table) remove(k key) {
	if m := t.members[k]; m != nil {
		t.changed = t.changed || m.shown
		delete(t.members, k)
	}
}

// beat takes one beat in.
func (t *table) beat(b *beat) {
	k := b.key()
	m := t.members[k]
	if b.Bye {
		if m != nil && m.rec != nil && m.rec.Instance == b.Instance {
			t.remove(k)
		}
		return
	}
	m = t.get(k)
	switch {
	case m.rec == nil:
		m.heard = t.now
		t.miss(m, b)
	case m.rec.Instance != b.Instance:
		t.miss(m, b) // and no beat of the record that we have
	default:
		t.hear(m)
		if b.Seq > m.rec.Seq {
			t.miss(m, b)
			return
		}
		m.missing = 0
		if b.Seq == m.rec.Seq {
			t.apply(m, b.Facts)
		}
	}
}

func (t *table) miss(m *member, b *beat) {
	if m.missing == 0 || m.wanted != b.Instance {
		m.missing, m.wanted, m.asked, m.searches = t.now, b.Instance, 0, 0
	}
}

// unreadable notes that what lies under k is nothing for us.
func (t *table) unreadable(k key) {
	m := t.get(k)
	m.foreign, m.pass = true, t.pass
}

// apply puts a beat's numbers into the member's node. No numbers mean those of the record.
func (t *table) apply(m *member, facts []int64) {
	if m.rec.Node == nil {
		return
	}
	if len(facts) == 0 {
		if m.node != m.rec.Node {
			m.node, t.minor = m.rec.Node, true
		}
		return
	}
	if equal(m.node.facts(), facts) {
		return
	}
	fresh := m.rec.Node.clone()
	if fresh.setFacts(facts) {
		m.node, t.minor = fresh, true
	}
}

func equal(a, b []int64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// pong moves the clock by the time since the last PONG, and ends leases. What lies between two PONGs that are too far apart
// counts for nothing.
func (t *table) pong(since time.Duration) {
	if since > deafAfter {
		t.grace()
		return
	}
	t.now += since
	for k, m := range t.members {
		age := t.now - m.heard
		switch {
		case age > Lease && m.shown:
			m.shown, t.changed = false, true
		case age > Lease && m.rec == nil, age > forget:
			delete(t.members, k)
		}
		if m.missing != 0 && age > Lease {
			m.missing = 0
		}
	}
}

// grace begins all leases anew.
func (t *table) grace() {
	for _, m := range t.members {
		if m.shown || m.rec == nil {
			m.heard = t.now
		}
	}
}

// lost notes that NATS cannot be heard, or that the watch of the bucket is over.
func (t *table) lost() { t.synced, t.loading = 0, false }

// begin notes that a snapshot of the bucket follows.
func (t *table) begin() {
	t.pass++
	t.loading, t.synced, t.dead = true, 0, false
}

// end notes that the snapshot is over. What it lacks and nobody beats for is gone. A snapshot during which the connection was lost
// proves nothing.
func (t *table) end() {
	if !t.loading {
		return
	}
	t.loading, t.synced = false, t.now
	for k, m := range t.members {
		if m.rec != nil && m.pass != t.pass && !m.shown {
			delete(t.members, k)
		}
	}
}

// whole tells whether the view has all that live: a snapshot was read, and who lies in the bucket had time to be heard.
func (t *table) whole() bool {
	if t.synced == 0 {
		return false
	}
	if t.now-t.synced >= settle {
		return true
	}
	for _, m := range t.members {
		if !m.shown && t.now-m.heard < settle {
			return false
		}
	}
	return true
}

// want is a record that beats name and the bucket did not bring.
type recordRequest struct {
	key
	instance string
}

// missed returns the records to ask for, and whether the watch of the bucket seems dead because one that was asked for did not
// come either; that holds until the next snapshot begins. No search is the last one.
func (t *table) missed() (wants []recordRequest, dead bool) {
	for k, m := range t.members {
		age := t.now - m.missing
		switch {
		case m.missing == 0 || m.foreign || t.loading:
		case m.asked == 0 && age > missingAfter:
			m.asked = 1
			wants = append(wants, recordRequest{k, m.wanted})
		case m.asked == 1 && age > watchDeadAfter:
			m.asked, t.dead = 2, true
		case m.asked == 2 && age > searchAgain<<min(m.searches, 5):
			m.asked, m.missing = 0, t.now
			m.searches++
		}
	}
	return wants, t.dead
}
