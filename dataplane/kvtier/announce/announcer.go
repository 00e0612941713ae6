package announce

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// Bus carries messages to routers, at most once each. Package cluster has one.
type Bus interface {
	// PublishOwn sends to all subscribers, in the name of this node's token. It does not wait for
	// them, and keeps nothing of data.
	PublishOwn(subject string, data []byte) error
	// Subscribe calls f with each message, from one goroutine. f owns data.
	Subscribe(subject string, f func(data []byte)) (stop func(), err error)
	// ReplyOwn answers requests to this node's token on a subject with the result of f, one after
	// the other.
	ReplyOwn(subject string, f func(data []byte) []byte) (stop func(), err error)
}

// Source is the tier whose pages are announced.
type Source interface {
	// Subscribe returns the position of now, and a channel that has a value after changes.
	Subscribe() (proto.Position, <-chan struct{})
	// Kinds lists the kinds of pages. Within an epoch the order stays and new kinds come last.
	Kinds() []proto.Kind
	// Changes appends changes from a position on, up to the capacity of dst. next is the position
	// after them, now the present one. ok is false where the source does not remember them.
	Changes(dst []proto.Change, from proto.Position) (list []proto.Change, next, now proto.Position, ok bool)
	// Contents appends pages from a place on, up to the capacity of dst. The first place is 0; a
	// next below 0 is the end.
	Contents(dst []proto.Change, place int) (list []proto.Change, next int)
}

// Config configures an Announcer.
type Config struct {
	Node   string // as the cluster knows it
	Bus    Bus
	Source Source
	Log    *slog.Logger
}

const (
	// gatherTime is the time for which changes are gathered.
	gatherTime = 100 * time.Millisecond
	// minIdle and maxIdle bound the interval of reports without changes, which doubles from the
	// one to the other.
	minIdle, maxIdle = time.Second, 10 * time.Second
)

// Announcer publishes the changes of a tier and answers questions about them.
type Announcer struct {
	cfg    Config
	id     uint64
	join   chan struct{} // capacity 1
	counts counts

	changes []proto.Change // empty, with room for a report; of Run
	buf     []byte         // of Run
	answers []proto.Change // as changes; of the goroutine that answers
}

// New returns an announcer. Run must follow.
func New(cfg Config) *Announcer {
	return &Announcer{
		cfg: cfg, id: rand.Uint64(), join: make(chan struct{}, 1), changes: make([]proto.Change, 0, MaxChanges), answers: make([]proto.Change, 0, MaxChanges),
	}
}

// Run announces until ctx ends. Call it once.
func (a *Announcer) Run(ctx context.Context) {
	at, changed := a.cfg.Source.Subscribe()
	stops := make([]func(), 0, 2)
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	listen := []func() (func(), error){
		func() (func(), error) { return a.cfg.Bus.ReplyOwn(SubjectQuestion(a.id), a.answer) },
		func() (func(), error) { return a.cfg.Bus.Subscribe(SubjectJoin, a.joined) },
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	idle, gathering := minIdle, false
	gather := func() {
		if !gathering {
			gathering = true
			timer.Reset(gatherTime)
		}
	}
	for {
		for len(stops) < len(listen) {
			stop, err := listen[len(stops)]()
			if err != nil {
				a.cfg.Log.Warn("cannot listen to routers' questions about the KV tier; trying again", "error", err)
				break
			}
			stops = append(stops, stop)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
			gather()
		case <-a.join:
			gather()
		case <-timer.C:
			news, ok := a.publish(&at)
			if idle = min(2*idle, maxIdle); news || !ok || gathering {
				idle = minIdle
			}
			gathering = false
			timer.Reset(idle)
		}
	}
}

// joined has Run publish for a router that has started.
func (a *Announcer) joined([]byte) {
	select {
	case a.join <- struct{}{}:
	default:
	}
}

// publish sends all changes since a position, or a report without any. ok is false where the bus
// took less than that.
func (a *Announcer) publish(at *proto.Position) (changed, ok bool) {
	for {
		list, next, now, known := a.cfg.Source.Changes(a.changes, *at)
		if !known {
			// Routers see the gap and ask for the contents.
			a.counts.forgotten.Add(1)
			list, next, *at = nil, now, now
		}
		m := Report{Type: TypeChanges, Node: a.cfg.Node, Announcer: a.id, Epoch: at.Epoch, From: at.Number, Next: next.Number}
		if !a.fill(&m, list) {
			continue
		}
		a.buf = m.Append(a.buf[:0])
		if err := a.cfg.Bus.PublishOwn(SubjectReport, a.buf); err != nil {
			a.counts.failed.Add(1)
			return changed, false
		}
		a.counts.published(m.Changes, len(a.buf))
		changed = changed || next != *at || !known
		if *at = next; next == now {
			return changed, true
		}
	}
}

// fill adds changes and their kinds. Kinds are read after the changes, so that none is missing. It
// fails where they belong to a later epoch: a new kind may have taken an index of an old one.
func (a *Announcer) fill(m *Report, list []proto.Change) bool {
	m.Kinds = a.cfg.Source.Kinds()
	if len(m.Kinds) > MaxKinds {
		m.Kinds = m.Kinds[:MaxKinds]
		had := len(list)
		list = slices.DeleteFunc(list, func(c proto.Change) bool { return c.Kind >= MaxKinds })
		a.counts.leftOut.Add(uint64(had - len(list)))
	}
	m.Changes = list
	now, _ := a.cfg.Source.Subscribe()
	return now.Epoch == m.Epoch
}

// answer answers the question of a router; nil is no answer.
func (a *Announcer) answer(data []byte) []byte {
	q, err := ReadQuestion(data)
	if err != nil {
		a.counts.malformed.Add(1)
		return nil
	}
	for range 3 { // a new epoch while the report is made is rare
		if m, ok := a.report(q); ok {
			return m.Append(nil)
		}
	}
	return nil
}

// report makes the answer to a question. ok is false where a new epoch began meanwhile.
func (a *Announcer) report(q Question) (m Report, ok bool) {
	m = Report{Node: a.cfg.Node, Announcer: a.id}
	if q.Type == TypeAskContents {
		now, _ := a.cfg.Source.Subscribe() // before the contents are read
		list, next := a.cfg.Source.Contents(a.answers, int(q.Number))
		m.Type, m.Epoch, m.From, m.Next = TypeContents, now.Epoch, now.Number, uint64(next+1)
		a.counts.contents.Add(1)
		ok = a.fill(&m, list)
		return m, ok
	}
	list, next, now, known := a.cfg.Source.Changes(a.answers, proto.Position{Epoch: q.Epoch, Number: q.Number})
	m.Type, m.Epoch, m.From, m.Next = TypeMissing, q.Epoch, q.Number, next.Number
	a.counts.missing.Add(1)
	if !known {
		m.Type, m.Epoch, m.From, m.Next = TypeForgotten, now.Epoch, now.Number, now.Number
		a.counts.lost.Add(1)
	}
	ok = a.fill(&m, list)
	return m, ok
}
