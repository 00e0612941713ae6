package cluster

import (
	"slices"
	"time"
)

// Times of the lease. With them a process that dies is out of every view after 2.0 to 2.6 s: its
// last beat is up to beatEvery old, and the lease ends at the next PONG.
const (
	beatEvery = 500 * time.Millisecond
	pingEvery = 250 * time.Millisecond
	// Lease is how long a record stays in the views without a beat, while NATS answers.
	Lease = 2250 * time.Millisecond // 4 beats may be late, because of the network or a busy machine
	// pongGap is the time between two PONGs beyond which beats may have been missed, so leases
	// begin anew. It is below Lease, so that the wait for one PONG never ends a lease, and above
	// the time that a loaded machine takes to schedule a process.
	pongGap = time.Second
	// missingAfter is how long a beat may name an unknown record: the bucket's watch is behind
	// core NATS by ms, and by seconds where all processes have just come. Then the record is
	// requested, which has it written again. If it does not come within watchDeadAfter the
	// buckets are read again, whose cost grows with the number of processes.
	missingAfter   = 2 * time.Second
	watchDeadAfter = 6 * time.Second
	// searchPause is the time of the first search for a record before the next one begins; each
	// takes twice as long.
	searchPause = 20 * time.Second
	// firstBeatTime is how long records in the bucket have to beat before a view counts as
	// whole: a living process beats twice in it.
	firstBeatTime = 2*beatEvery + pingEvery
	// silentRecordAge is when the record of a silent process is dropped. A process that
	// continues earlier need not write its record again.
	silentRecordAge = 20 * time.Minute
	// maxMembers bounds the names that are known by beats alone: a router's token beats for any
	// number of them, and each is asked for by all.
	maxMembers = 8192
)

// member is one process's record and the state of its beats.
type member struct {
	rec        *record       // nil: beats alone
	node       *Node         // of rec with the numbers of the last beat; nil for a router
	shown      bool          // in the views: it has beaten, and its lease has not ended
	lastBeat   time.Duration // the last beat or write
	missing    time.Duration // since then beats name a record that is not rec; 0: they do not
	wanted     string        // instance of the missing record
	asked      int           // stages of the search for it, since missing
	searches   int           // that ended without it
	unreadable bool          // its record in the bucket is unreadable: requests would not help
	newer      bool          // it beats, and only a later release reads its beats and its record
	pass       uint64        // of the last snapshot that it was in
}

// memberTable holds the members, this process among them. It is a state machine without clock
// and I/O; its time is that of the PONGs, and begins at 1 so that 0 means never.
type memberTable struct {
	now     time.Duration
	members map[key]*member
	pass    uint64 // counts snapshots of the bucket
	loading bool   // a snapshot is being read
	// Since the last snapshot began: a record that was asked for did not come.
	watchDead bool
	// End of the last snapshot; 0: none, or the connection was lost since.
	synced         time.Duration
	changed        bool // the views have changed since this was cleared
	numbersChanged bool // the same of numbers alone
}

func newMemberTable() *memberTable { return &memberTable{now: 1, members: map[key]*member{}} }

// get returns the member under k, and makes it where it is new.
func (t *memberTable) get(k key) *member {
	m := t.members[k]
	if m == nil {
		m = &member{lastBeat: t.now}
		t.members[k] = m
	}
	return m
}

// put takes in a record of the bucket. One after the snapshot was written just now, so it counts
// as a beat.
func (t *memberTable) put(k key, rec *record) {
	m := t.get(k)
	m.pass = t.pass
	same := m.rec != nil && m.rec.Instance == rec.Instance && m.rec.Seq == rec.Seq
	if !same {
		m.rec, m.node = rec, rec.Node
		t.changed = t.changed || m.shown
		m.missing, m.unreadable = 0, false
	}
	switch {
	case !t.loading:
		t.renewLease(m)
	case !m.shown && !same:
		m.lastBeat = t.now // its lease to beat in begins
	}
}

// renewLease renews a lease.
func (t *memberTable) renewLease(m *member) {
	m.lastBeat = t.now
	if !m.shown && m.rec != nil {
		m.shown, t.changed = true, true
	}
}

// remove takes a record out because its owner, or an operator, did.
func (t *memberTable) remove(k key) {
	if m := t.members[k]; m != nil {
		t.changed = t.changed || m.shown
		delete(t.members, k)
	}
}

// beat takes one beat in.
func (t *memberTable) beat(b *beat) {
	k := b.key()
	m := t.members[k]
	if b.Bye {
		if m != nil && m.rec != nil && m.rec.Instance == b.Instance {
			t.remove(k)
		}
		return
	}
	if m == nil && len(t.members) >= maxMembers {
		return
	}
	m = t.get(k)
	if m.newer { // it has gone back to a release that this one knows
		m.newer, t.changed = false, true
	}
	switch {
	case m.rec == nil:
		m.lastBeat = t.now
		t.noteMissing(m, b)
	case m.rec.Instance != b.Instance:
		t.noteMissing(m, b) // and no beat of the record that we have
	default:
		t.renewLease(m)
		if b.Seq > m.rec.Seq {
			t.noteMissing(m, b)
			return
		}
		m.missing = 0
		if b.Seq == m.rec.Seq {
			t.apply(m, b.Facts)
		}
	}
}

// beatNewer takes in a beat of a later release for the record under k.
func (t *memberTable) beatNewer(k key) {
	if t.members[k] == nil && len(t.members) >= maxMembers {
		return
	}
	m := t.get(k)
	m.lastBeat, m.missing = t.now, 0
	if !m.newer {
		m.newer, t.changed = true, true
	}
}

func (t *memberTable) noteMissing(m *member, b *beat) {
	if m.missing == 0 || m.wanted != b.Instance {
		m.missing, m.wanted, m.asked, m.searches = t.now, b.Instance, 0, 0
	}
}

// unreadable notes that the record under k cannot be read.
func (t *memberTable) unreadable(k key) {
	m := t.get(k)
	m.unreadable, m.pass = true, t.pass
}

// apply puts a beat's numbers into the member's node. An empty list stands for the record's
// numbers.
func (t *memberTable) apply(m *member, facts []int64) {
	if m.rec.Node == nil {
		return
	}
	if len(facts) == 0 {
		if m.node != m.rec.Node {
			m.node, t.numbersChanged = m.rec.Node, true
		}
		return
	}
	if slices.Equal(m.node.facts(), facts) {
		return
	}
	fresh := m.rec.Node.clone()
	if fresh.setFacts(facts) {
		m.node, t.numbersChanged = fresh, true
	}
}

// pong advances the clock by the time since the last PONG, and ends leases. The time between two
// PONGs that are too far apart does not count.
func (t *memberTable) pong(since time.Duration) {
	if since > pongGap {
		t.renewLeases()
		return
	}
	t.now += since
	for k, m := range t.members {
		age := t.now - m.lastBeat
		switch {
		case age > Lease && (m.shown || m.newer):
			m.shown, m.newer, t.changed = false, false, true
		case age > Lease && m.rec == nil, age > silentRecordAge:
			delete(t.members, k)
		}
		if m.missing != 0 && age > Lease {
			m.missing = 0
		}
	}
}

// renewLeases renews all leases.
func (t *memberTable) renewLeases() {
	for _, m := range t.members {
		if m.shown || m.newer || m.rec == nil {
			m.lastBeat = t.now
		}
	}
}

// lost notes that NATS is out of reach, or that the watch of the bucket has ended.
func (t *memberTable) lost() { t.synced, t.loading = 0, false }

// begin notes that a snapshot of the bucket follows.
func (t *memberTable) begin() {
	t.pass++
	t.loading, t.synced, t.watchDead = true, 0, false
}

// end ends the snapshot. Members that it lacks and that do not beat are gone. A snapshot during
// which the connection was lost proves nothing.
func (t *memberTable) end() {
	if !t.loading {
		return
	}
	t.loading, t.synced = false, t.now
	for k, m := range t.members {
		if m.rec != nil && m.pass != t.pass && !m.shown && !m.newer {
			delete(t.members, k)
		}
	}
}

// whole reports whether the view has all living members: a snapshot was read, and all records in
// it had time to beat.
func (t *memberTable) whole() bool {
	if t.synced == 0 {
		return false
	}
	if t.now-t.synced >= firstBeatTime {
		return true
	}
	for _, m := range t.members {
		if !m.shown && !m.newer && t.now-m.lastBeat < firstBeatTime {
			return false
		}
	}
	return true
}

// recordRequest is a record that beats name and the bucket did not bring.
type recordRequest struct {
	key
	instance string
}

// missingRecords returns the records to request. dead reports that the watch of the bucket
// seems dead because a requested one did not come either; it holds until the next snapshot
// begins. Searches never stop.
func (t *memberTable) missingRecords() (wants []recordRequest, dead bool) {
	for k, m := range t.members {
		age := t.now - m.missing
		switch {
		case m.missing == 0 || m.unreadable || t.loading:
		case m.asked == 0 && age > missingAfter:
			m.asked = 1
			wants = append(wants, recordRequest{k, m.wanted})
		case m.asked == 1 && age > watchDeadAfter:
			m.asked, t.watchDead = 2, true
		case m.asked == 2 && age > searchPause<<min(m.searches, 5):
			m.asked, m.missing = 0, t.now
			m.searches++
		}
	}
	return wants, t.watchDead
}
