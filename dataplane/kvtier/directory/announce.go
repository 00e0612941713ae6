package directory

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/kvtier/store"
)

// Bus carries messages between sidecars and routers, at most once. package cluster has one.
type Bus interface {
	// Publish sends to all who subscribe. It does not wait for them, and keeps nothing of data.
	Publish(subject string, data []byte) error
	// Subscribe calls f with each message, from one goroutine. f owns data.
	Subscribe(subject string, f func(data []byte)) (stop func(), err error)
	// Request returns the answer of who replies on a subject.
	Request(ctx context.Context, subject string, data []byte) ([]byte, error)
	// Reply answers requests on a subject with what f returns, one after the other.
	Reply(subject string, f func(data []byte) []byte) (stop func(), err error)
}

// Subjects of the bus. Questions go to one announcer each.
const (
	subjectTell = "shelf.tell"
	subjectWho  = "shelf.who" // a router has started: all announcers tell where they are
	subjectAsk  = "shelf.ask."
)

func askSubject(id uint64) string { return subjectAsk + strconv.FormatUint(id, 16) }

// Source is what is announced: a tier.Tier.
type Source interface {
	Follow() (store.Position, <-chan struct{})
	Kinds() []store.Kind
	Changes(dst []store.Change, from store.Position) (list []store.Change, next, now store.Position, ok bool)
	Contents(dst []store.Change, place int) (list []store.Change, next int)
}

// AnnouncerConfig says who announces what. Zero durations take their defaults.
type AnnouncerConfig struct {
	Node   string // as the cluster knows it
	Bus    Bus
	Source Source
	Gather time.Duration // for how long changes are gathered; default 100 ms
	// Beat and Rest are how soon and how late it is said that nothing is new: after Beat, then twice as late each time. Defaults 1 s and 10 s.
	Beat, Rest time.Duration
	Log        *slog.Logger
}

// Announcer tells routers what a node's tier holds.
type Announcer struct {
	cfg   AnnouncerConfig
	id    uint64
	who   chan struct{} // capacity 1
	count announced

	list []store.Change // of Run
	buf  []byte
	// of the goroutine that answers
	answers []store.Change
}

// announced is what an Announcer counts.
type announced struct {
	messages, bytes, pages, gone, failed atomic.Uint64
	contents, contentPages, missed, lost atomic.Uint64 // answers to questions
	malformed, forgotten, leftOut        atomic.Uint64
}

// NewAnnouncer returns an announcer, which Run starts.
func NewAnnouncer(cfg AnnouncerConfig) *Announcer {
	cfg.Gather = cmp.Or(cfg.Gather, 100*time.Millisecond)
	cfg.Beat = cmp.Or(cfg.Beat, time.Second)
	cfg.Rest = max(cmp.Or(cfg.Rest, 10*time.Second), cfg.Beat)
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	return &Announcer{cfg: cfg, id: binary.LittleEndian.Uint64(random[:]), who: make(chan struct{}, 1)}
}

// Run announces until ctx ends. Call it once.
func (a *Announcer) Run(ctx context.Context) {
	at, news := a.cfg.Source.Follow()
	stops := make([]func(), 0, 2)
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	listen := []func() (func(), error){
		func() (func(), error) { return a.cfg.Bus.Reply(askSubject(a.id), a.answer) },
		func() (func(), error) { return a.cfg.Bus.Subscribe(subjectWho, a.asked) },
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	beat, gathering := a.cfg.Beat, false
	gather := func() {
		if !gathering {
			gathering = true
			timer.Reset(a.cfg.Gather)
		}
	}
	for {
		for len(stops) < len(listen) {
			stop, err := listen[len(stops)]()
			if err != nil {
				a.cfg.Log.Warn("cannot listen to routers that ask for the KV tier's contents; trying again", "error", err)
				break
			}
			stops = append(stops, stop)
		}
		select {
		case <-ctx.Done():
			return
		case <-news:
			gather()
		case <-a.who:
			gather()
		case <-timer.C:
			told, ok := a.tell(&at)
			if beat = min(2*beat, a.cfg.Rest); told || !ok || gathering {
				beat = a.cfg.Beat
			}
			gathering = false
			timer.Reset(beat)
		}
	}
}

// asked has all told where this announcer is.
func (a *Announcer) asked([]byte) {
	select {
	case a.who <- struct{}{}:
	default:
	}
}

// tell sends what has changed, or that nothing has. It reports whether anything had, and whether all of it is on its way.
func (a *Announcer) tell(at *store.Position) (changed, ok bool) {
	for {
		list, next, now, known := a.cfg.Source.Changes(a.room(&a.list), *at)
		if !known {
			// They know by the gap that something is missing.
			a.count.forgotten.Add(1)
			list, next, *at = nil, now, now
		}
		m := report{kind: kindTell, node: a.cfg.Node, id: a.id, epoch: at.Epoch, at: at.At, next: next.At}
		if !a.fill(&m, list) {
			continue
		}
		a.buf = m.append(a.buf[:0])
		if err := a.cfg.Bus.Publish(subjectTell, a.buf); err != nil {
			a.count.failed.Add(1)
			return changed, false
		}
		a.counted(m.changes)
		changed = changed || next != *at || !known
		if *at = next; next == now {
			return changed, true
		}
	}
}

func (a *Announcer) counted(list []store.Change) {
	gone := uint64(0)
	for i := range list {
		if list[i].Gone {
			gone++
		}
	}
	a.count.messages.Add(1)
	a.count.bytes.Add(uint64(len(a.buf)))
	a.count.gone.Add(gone)
	a.count.pages.Add(uint64(len(list)) - gone)
}

// room is an empty list for as many changes as a message takes.
func (a *Announcer) room(list *[]store.Change) []store.Change {
	if *list == nil {
		*list = make([]store.Change, 0, mostChanges)
	}
	return (*list)[:0]
}

// fill adds changes and the kinds that they refer to, which are read after them and so have all of
// theirs. It fails where the kinds are of a later epoch: another one may have the place of one.
func (a *Announcer) fill(m *report, list []store.Change) bool {
	m.kinds = a.cfg.Source.Kinds()
	if len(m.kinds) > mostKinds {
		m.kinds = m.kinds[:mostKinds]
		had := len(list)
		list = slices.DeleteFunc(list, func(c store.Change) bool { return c.Kind >= mostKinds })
		a.count.leftOut.Add(uint64(had - len(list)))
	}
	m.changes = list
	now, _ := a.cfg.Source.Follow()
	return now.Epoch == m.epoch
}

// answer tells one router what it asks for.
func (a *Announcer) answer(data []byte) []byte {
	q, err := readAsk(data)
	if err != nil {
		a.count.malformed.Add(1)
		return nil
	}
	for range 3 { // namespaces that come and go are rare
		if m, ok := a.report(q); ok {
			return m.append(nil)
		}
	}
	return nil
}

// report is the answer to a question, if it belongs together.
func (a *Announcer) report(q ask) (m report, ok bool) {
	m = report{node: a.cfg.Node, id: a.id}
	room := a.room(&a.answers)
	if q.kind == askContents {
		now, _ := a.cfg.Source.Follow() // before the contents are read
		list, next := a.cfg.Source.Contents(room, int(q.number))
		m.kind, m.epoch, m.at, m.next = kindContents, now.Epoch, now.At, uint64(next+1)
		a.count.contents.Add(1)
		a.count.contentPages.Add(uint64(len(list)))
		ok = a.fill(&m, list)
		return m, ok
	}

	list, next, now, known := a.cfg.Source.Changes(room, store.Position{Epoch: q.epoch, At: q.number})
	m.kind, m.epoch, m.at, m.next = kindMissed, q.epoch, q.number, next.At
	a.count.missed.Add(1)
	if !known {
		m.kind, m.epoch, m.at, m.next = kindLost, now.Epoch, now.At, now.At
		a.count.lost.Add(1)
	}
	ok = a.fill(&m, list)
	return m, ok
}
