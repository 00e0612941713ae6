package cluster

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// state is what run owns.
type reader struct {
	*Cluster
	table    *table
	said     beatCache
	marks    marks
	now      *bucketWatches                 // that records and marked come from
	created  time.Time                      // of the stream of records
	restored time.Duration                  // when lost marks were handed to write
	records  <-chan jetstream.KeyValueEntry // nil: not watched
	marked   <-chan jetstream.KeyValueEntry // nil: not watched
	lastPong time.Time                      // zero: none since the connection was lost
	begun    time.Duration                  // when the snapshot began
	moved    bool                           // marks changed since the last view
	logged   map[string]bool                // what was skipped and said so
}

// wantGap is the least age of a record that is written again because somebody lacks it: all others lack it at the same time.
const wantGap = 10 * time.Second

// deadGap is the least time between two readings of all buckets because one record is missing.
const deadGap = 10 * time.Second

// restoreGap is the least time between two tries to write the marks of a lost store.
const restoreGap = 2 * time.Second

// longLoad is how long a snapshot may take, of the time that NATS is heard: it has some hundred KB.
const maxSnapshotRead = 5 * time.Second

// maxLogged bounds what is remembered of skipped records.
const maxLogged = 1024

func newReader(c *Cluster) *reader {
	return &reader{
		Cluster: c, table: newTable(), said: newBeatCache(), marks: marks{list: map[string]Mark{}, lost: map[string]bool{}},
		logged: map[string]bool{},
	}
}

// run reads everything that NATS tells and publishes views.
func (s *reader) run() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case m := <-s.beats:
			s.beat(m)
			s.drain()
		case m := <-s.wants:
			s.want(m)
		case w := <-s.opened:
			s.open(w)
		case e, ok := <-s.records:
			s.record(e, ok)
		case e, ok := <-s.marked:
			s.mark(e, ok)
		case at := <-s.pongs:
			s.drain() // all that NATS sent before the PONG
			s.pong(at)
		case <-s.deaf:
			s.table.grace()
		case <-s.mute:
			s.silence()
		case <-s.gone:
			s.silence()
			s.table.lost()
		}
		s.publish()
	}
}

func (s *reader) drain() {
	for range len(s.beats) {
		s.beat(<-s.beats)
	}
}

func (s *reader) beat(m *nats.Msg) {
	b, err := s.said.read(m.Data)
	if err != nil {
		s.skip("beat", err)
		return
	}
	s.table.beat(b)
}

// skip counts what cannot be read and says so once for each source.
func (s *reader) skip(what string, err error) {
	s.counts.skipped.Add(1)
	if errors.Is(err, errNewer) {
		what += " (newer)"
	}
	if !s.logged[what] && len(s.logged) < maxLogged {
		s.logged[what] = true
		s.cfg.Log.Warn("cluster: skipped what cannot be read", "what", what, "error", err)
	}
}

// open begins to read new watches; nil: the present ones are over.
func (s *reader) open(w *bucketWatches) {
	if w == nil {
		s.records, s.marked = nil, nil
		s.table.lost()
		return
	}
	s.now, s.records, s.marked = w, w.records.watch.Updates(), w.marks.watch.Updates()
	s.table.begin()
	s.begun = s.table.now
	if !w.records.created.Equal(s.created) {
		s.created = w.records.created
		s.own.renumber()
	}
	s.marks.begin(w.marks.created, w.marks.first)
}

// record takes one change of the bucket in; a nil entry ends the snapshot.
func (s *reader) record(e jetstream.KeyValueEntry, ok bool) {
	if !ok {
		s.records = nil
		s.table.lost()
		s.resync.raise()
		return
	}
	if !s.now.records.read(e) {
		s.doubt.raise()
	}
	if e == nil {
		s.table.end()
		s.checkOwn()
		return
	}
	k, err := parseKey(e.Key())
	if err != nil {
		s.skip(e.Key(), err)
		return
	}
	if e.Operation() != jetstream.KeyValuePut {
		s.table.remove(k)
		if s.own.again(func(mine key, r *ownRecord) bool { return mine == k && e.Revision() > r.revision }) {
			s.wake.raise()
		}
		return
	}
	rec, err := decodeRecord(k, e.Value())
	if err != nil {
		s.table.unreadable(k)
		s.skip(e.Key(), err)
		return
	}
	s.table.put(k, rec)
	s.contest(k, rec, e.Revision())
}

// contest yields our name to a process that took it after us: the last one wins, as after a restart.
func (s *reader) contest(k key, rec *record, revision uint64) {
	if mine, ok := s.own.revision(k); !ok || rec.Instance == s.own.instance || revision < mine {
		return
	}
	if s.own.yield(k, true) {
		s.counts.conflicts.Add(1)
		s.cfg.Log.Error("cluster: another process has our name and took it over: give one of them another name", "kind", k.kind, "name", k.name)
	}
}

// checkOwn has records written again that a snapshot lacks: the store was lost, or is older.
func (s *reader) checkOwn() {
	again := s.own.again(func(k key, r *ownRecord) bool {
		m := s.table.members[k]
		return m == nil || m.rec == nil || m.pass != s.table.pass || m.rec.Instance == s.own.instance && m.rec.Seq < r.acked
	})
	if again {
		s.wake.raise()
	}
}

// mark takes one change of the marks in.
func (s *reader) mark(e jetstream.KeyValueEntry, ok bool) {
	s.moved = true
	if ok && !s.now.marks.read(e) {
		s.doubt.raise()
	}
	switch {
	case !ok:
		s.marked = nil
		s.table.lost()
		s.resync.raise()
	case e == nil:
		s.marks.end()
		s.restore()
	case e.Operation() != jetstream.KeyValuePut:
		if target, err := unescape(e.Key()); err == nil {
			s.marks.remove(target)
		}
	default:
		m, err := decodeMark(e.Key(), e.Value())
		if err != nil {
			s.skip("mark "+e.Key(), err)
			return
		}
		s.marks.set(m)
	}
}

// restore hands marks of a lost store to write.
func (s *reader) restore() {
	lost := s.marks.unsaved()
	if len(lost) == 0 {
		return
	}
	s.restored = s.table.now
	select {
	case s.lostMarks <- lost:
	default: // write has those of before, and these come again
	}
}

// want writes a record of ours again because somebody who hears our beats lacks it.
func (s *reader) want(m *nats.Msg) {
	now := time.Now()
	if s.own.again(func(k key, r *ownRecord) bool {
		return s.wantOf(recordRequest{k, s.own.instance}) == m.Subject && now.Sub(r.written) > wantGap
	}) {
		s.wake.raise()
	}
}

// pong moves the leases' clock, and asks for what is missing.
func (s *reader) pong(at time.Time) {
	if s.lastPong.IsZero() {
		s.table.grace()
	} else {
		s.table.pong(at.Sub(s.lastPong))
	}
	s.lastPong = at
	s.hearing.Store(true)
	wants, dead := s.table.missed()
	for _, w := range wants {
		_ = s.nc.Publish(s.wantOf(w), nil) // where it is lost, the buckets are read again
	}
	if len(wants) > 0 {
		s.doubt.raise()
	}
	if dead && s.table.now-s.begun > deadGap || s.stuck() {
		s.resync.raise()
	}
	if s.marks.seen == nil && s.table.now-s.restored > restoreGap {
		s.restore()
	}
	for _, k := range s.own.yielded() { // back, when who took it is gone
		if m := s.table.members[k]; m == nil || !m.shown && s.table.now-m.heard > Lease {
			s.own.yield(k, false)
			s.wake.raise()
		}
	}
}

// wantOf is where a record is asked for.
func (s *reader) wantOf(w recordRequest) string {
	return s.subject(wantSubject) + "." + w.instance + "." + w.String()
}

// stuck tells whether the buckets must be read again: the connection was lost since, or the snapshot does not end.
func (s *reader) stuck() bool {
	if s.records == nil || s.marked == nil { // write is at it
		return false
	}
	return s.table.synced == 0 && !s.table.loading || (s.table.loading || s.marks.seen != nil) && s.table.now-s.begun > maxSnapshotRead
}

// silence stops the clock until NATS is heard again.
func (s *reader) silence() {
	s.lastPong = time.Time{}
	s.hearing.Store(false)
}

// publish makes a new view where there is news. Numbers alone wait for the next PONG, at which most of them come together.
func (s *reader) publish() {
	old := s.view.Load()
	up := s.hearing.Load() && s.records != nil && s.marked != nil && s.marks.seen == nil && s.table.whole()
	now := time.Now()
	switch {
	case s.table.changed || s.moved || up != old.Up || s.table.minor && !s.lastPong.IsZero() && s.lastPong.After(old.At):
		s.view.Store(s.table.view(s.marks.list, up, now))
		s.table.changed, s.table.minor, s.moved = false, false, false
		if up != old.Up {
			s.say(up)
		}
		s.tell()
	case up && s.lastPong.After(old.At):
		fresh := *old
		fresh.At = now
		s.view.Store(&fresh)
	}
}

// say logs that NATS was lost or is back.
func (s *reader) say(up bool) {
	switch {
	case up:
		s.cfg.Log.Info("cluster: up", "url", s.URL(), "nodes", len(s.view.Load().Nodes), "routers", len(s.view.Load().Replicas))
		return
	case s.hearing.Load(): // a beat was here before the record of who sent it: for some ms at each start of a process of the cluster
		s.cfg.Log.Debug("cluster: records are being read", "url", s.URL())
		return
	}
	s.cfg.Log.Warn("cluster: NATS is out of reach; what was known last holds", "url", s.URL())
}
