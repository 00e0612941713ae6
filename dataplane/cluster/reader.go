package cluster

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// reader owns all received state; its run method has a goroutine.
type reader struct {
	*Cluster
	table         *memberTable
	marks         markSet
	now           *bucketWatches                 // that records and marked come from
	created       time.Time                      // of the stream of records
	restored      time.Duration                  // when lost marks were handed to write
	records       <-chan jetstream.KeyValueEntry // nil: not watched
	marked        <-chan jetstream.KeyValueEntry // nil: not watched
	lastPong      time.Time                      // zero: none since the connection was lost
	snapshotBegan time.Duration                  // when the snapshot began
	beatPrefix    string                         // of the subjects of beats
	marksChanged  bool                           // marks changed since the last view
	logged        map[string]bool                // skipped sources that were logged
}

// requestGap is the least age of a record that is written again on request: all processes lack it
// at the same time.
const requestGap = 10 * time.Second

// deadGap is the least time between two readings of all buckets because one record is missing.
const deadGap = 10 * time.Second

// restoreGap is the least time between two tries to write the marks of a lost store.
const restoreGap = 2 * time.Second

// maxSnapshotRead bounds the reading of a snapshot, in time with NATS: it has some hundred KB.
const maxSnapshotRead = 5 * time.Second

// maxLogged bounds the memory of logged sources.
const maxLogged = 1024

func newReader(c *Cluster) *reader {
	return &reader{
		Cluster: c, table: newMemberTable(), marks: newMarkSet(),
		logged: map[string]bool{}, beatPrefix: c.subject(beatSubject) + ".",
	}
}

// run reads all messages of NATS and publishes views.
func (s *reader) run() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case m := <-s.beats:
			s.beat(m)
			s.drain()
		case m := <-s.requests:
			s.recordRequested(m)
		case w := <-s.opened:
			s.open(w)
		case e, ok := <-s.records:
			s.record(e, ok)
		case e, ok := <-s.marked:
			s.mark(e, ok)
		case at := <-s.pongs:
			s.drain() // all that NATS sent before the PONG
			s.pong(at)
		case <-s.overflowed:
			s.table.renewLeases()
		case <-s.unresponsive:
			s.disconnect()
		case <-s.disconnected:
			s.disconnect()
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
	b, err := decodeBeat(m.Data)
	place, _ := strings.CutPrefix(m.Subject, s.beatPrefix)
	if err != nil {
		if errors.Is(err, errNewer) && place == b.place && !b.Bye && checkName(b.Name) == nil {
			s.table.beatNewer(b.key())
		}
		s.skip("beat", err)
		return
	}
	if place != b.place {
		s.skip("beat on a foreign subject", fmt.Errorf("%w: a beat of %s on %s", errMalformed, b.key(), m.Subject))
		return
	}
	s.table.beat(&b)
}

// skip counts unreadable data and logs it once for each source.
func (s *reader) skip(what string, err error) {
	s.counts.skipped.Add(1)
	if errors.Is(err, errNewer) {
		what += " (newer)"
	}
	if !s.logged[what] && len(s.logged) < maxLogged {
		s.logged[what] = true
		s.cfg.Log.Warn("cluster: skipped unreadable data", "source", what, "error", err)
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
	s.snapshotBegan = s.table.now
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
		s.compare.raise()
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
		if s.own.rewrite(func(mine key, r *ownRecord) bool { return mine == k && e.Revision() > r.revision }) {
			s.write.raise()
		}
		return
	}
	rec, err := decodeRecord(k, e.Value())
	if err != nil {
		s.table.unreadable(k)
		s.skip(e.Key(), err)
		if errors.Is(err, errNewer) { // none of ours
			s.resolveConflict(k, &record{}, e.Revision())
		}
		return
	}
	s.table.put(k, rec)
	s.resolveConflict(k, rec, e.Revision())
}

// resolveConflict yields the name of this process to one that took it later: the last one wins,
// as after a restart.
func (s *reader) resolveConflict(k key, rec *record, revision uint64) {
	if rec.Instance != s.own.instance && s.own.contest(k, revision) {
		s.nameLost(k)
	}
}

func (c *Cluster) nameLost(k key) {
	c.counts.conflicts.Add(1)
	c.cfg.Log.Error("cluster: another process has our name and took it over: give one of them another name", "kind", k.kind, "name", k.name)
}

// checkOwn has records written again that a snapshot lacks: the store was lost, or is older.
func (s *reader) checkOwn() {
	again := s.own.rewrite(func(k key, r *ownRecord) bool {
		m := s.table.members[k]
		return m == nil || m.rec == nil || m.pass != s.table.pass || m.rec.Instance == s.own.instance && m.rec.Seq < r.acked
	})
	if again {
		s.write.raise()
	}
}

// mark takes one change of the marks in.
func (s *reader) mark(e jetstream.KeyValueEntry, ok bool) {
	s.marksChanged = true
	if ok && !s.now.marks.read(e) {
		s.compare.raise()
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
			s.marks.remove(target, e.Revision())
		}
	default:
		m, err := decodeMark(e.Key(), e.Value())
		if err != nil {
			s.skip("mark "+e.Key(), err)
			if target, bad := unescape(e.Key()); bad == nil {
				s.marks.keep(target, e.Revision())
			}
			return
		}
		s.marks.set(m, e.Revision())
	}
}

// restore hands marks of a lost store to write.
func (s *reader) restore() {
	lost := s.marks.unsaved()
	if len(lost) == 0 || !s.holder.marks() {
		return
	}
	s.restored = s.table.now
	select {
	case s.lostMarks <- lost:
	default: // the writer has earlier ones, and these come again
	}
}

// recordRequested writes a record again on request of a process that hears its beats and lacks
// it.
func (s *reader) recordRequested(m *nats.Msg) {
	now := time.Now()
	if s.own.rewrite(func(k key, r *ownRecord) bool {
		return s.requestSubjectOf(recordRequest{k, s.own.instance}) == m.Subject && now.Sub(r.written) > requestGap
	}) {
		s.write.raise()
	}
}

// pong advances the leases' clock, and requests missing records.
func (s *reader) pong(at time.Time) {
	if s.lastPong.IsZero() {
		s.table.renewLeases()
	} else {
		s.table.pong(at.Sub(s.lastPong))
	}
	s.lastPong = at
	s.hearing.Store(true)
	wants, dead := s.table.missingRecords()
	for _, w := range wants {
		_ = s.nc.Publish(s.requestSubjectOf(w), nil) // where it is lost, the buckets are read again
	}
	if len(wants) > 0 {
		s.compare.raise()
	}
	if dead && s.table.now-s.snapshotBegan > deadGap || s.stuck() {
		s.resync.raise()
	}
	if !s.marks.loading && s.table.now-s.restored > restoreGap {
		s.restore()
	}
	for _, k := range s.own.yielded() { // yielded names come back when the other process is gone
		if m := s.table.members[k]; m == nil || !m.shown && s.table.now-m.lastBeat > Lease {
			s.own.reclaim(k)
			s.write.raise()
		}
	}
}

// requestSubjectOf is where a record is asked for.
func (s *reader) requestSubjectOf(w recordRequest) string {
	return s.subject(requestSubject) + "." + w.instance + "." + w.String()
}

// stuck reports whether the buckets must be read again: the connection was lost since, or the
// snapshot does not end.
func (s *reader) stuck() bool {
	if s.records == nil || s.marked == nil { // write is at it
		return false
	}
	return s.table.synced == 0 && !s.table.loading || (s.table.loading || s.marks.loading) && s.table.now-s.snapshotBegan > maxSnapshotRead
}

// disconnect stops the clock until NATS answers again.
func (s *reader) disconnect() {
	s.lastPong = time.Time{}
	s.hearing.Store(false)
}

// publish makes a new view after a change. Numbers alone wait for the next PONG, at which most
// of them come together.
func (s *reader) publish() {
	old := s.view.Load()
	up := s.hearing.Load() && s.records != nil && s.marked != nil && !s.marks.loading && s.table.whole()
	now := time.Now()
	switch {
	case s.table.changed || s.marksChanged || up != old.Up || s.table.numbersChanged && !s.lastPong.IsZero() && s.lastPong.After(old.At):
		s.view.Store(s.table.view(&s.marks, up, now))
		s.table.changed, s.table.numbersChanged, s.marksChanged = false, false, false
		if up != old.Up {
			s.logState(up)
		}
		s.tell()
	case up && s.lastPong.After(old.At):
		fresh := *old
		fresh.At = now
		s.view.Store(&fresh)
	}
}

// logState logs that NATS was lost or is back.
func (s *reader) logState(up bool) {
	switch {
	case up:
		s.cfg.Log.Info("cluster: up", "url", s.URL(), "nodes", len(s.view.Load().Nodes), "routers", len(s.view.Load().Routers))
		return
	case s.hearing.Load(): // a beat came before its record: for some ms at each start of a process
		s.cfg.Log.Debug("cluster: records are being read", "url", s.URL())
		return
	}
	s.cfg.Log.Warn("cluster: NATS is out of reach; the last known state holds", "url", s.URL())
}
