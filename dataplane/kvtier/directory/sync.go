package directory

import (
	"context"
	"errors"
	"time"
)

const (
	mostLearners = 4               // nodes that are learnt at once
	learnTimeout = 3 * time.Second // for an answer
	learnPause   = time.Second     // after one that did not come
)

// errMoved says that a node has begun anew while it was learnt, or is gone.
var errMoved = errors.New("shelf: the node has begun anew")

// next returns a node that is to be learnt by who calls; nil: there is none.
func (x *Index) next(now time.Time) *node {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, n := range x.nodes {
		if n.behind() && x.places[n.name] != 0 && !now.Before(n.retry) {
			n.learning = true
			return n
		}
	}
	return nil
}

// learn asks a node until all is known that it has told of.
func (x *Index) learn(ctx context.Context, n *node) {
	more, err := true, error(nil)
	for more && err == nil {
		more, err = x.step(ctx, n)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	n.learning = false
	if err != nil {
		if !errors.Is(err, errMoved) {
			x.count.failed.Add(1)
		}
		n.retry = time.Now().Add(learnPause)
	}
}

// step asks for all that a node holds or for what was missed. It reports whether there may be more.
func (x *Index) step(ctx context.Context, n *node) (more bool, err error) {
	x.mu.Lock()
	learnt, id, epoch, at, drops, behind := n.learnt, n.id, n.epoch, n.at, n.drops, n.heard > n.at
	x.mu.Unlock()
	switch {
	case !learnt:
		return true, x.learnAll(ctx, n)
	case !behind:
		return false, nil
	}
	var m report
	if err := x.ask(ctx, id, ask{kind: askMissed, epoch: epoch, number: at}, &m); err != nil {
		return false, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case n.id != id || n.drops != drops:
		return false, errMoved
	case m.kind == kindLost || m.epoch != epoch:
		n.learnt = false
	case m.kind != kindMissed || m.at != at || m.next <= at:
		return false, ErrMessage
	default:
		x.count.caughtUp.Add(1)
		x.applyLocked(n, &m)
		n.heard = max(n.heard, n.at)
	}
	return true, nil
}

// learnAll reads all that a node holds, in pieces.
func (x *Index) learnAll(ctx context.Context, n *node) error {
	x.mu.Lock()
	x.dropLocked(n)
	id, drops, place, began := n.id, n.drops, uint64(0), uint64(0)
	x.mu.Unlock()
	x.count.resyncs.Add(1)
	for first := true; ; first = false {
		var m report
		if err := x.ask(ctx, id, ask{kind: askContents, number: place}, &m); err != nil {
			return err
		}
		if m.kind != kindContents || (m.next != 0 && m.next-1 <= place) {
			return ErrMessage
		}
		x.mu.Lock()
		if n.id != id || n.drops != drops || (!first && m.epoch != n.epoch) {
			x.mu.Unlock()
			return errMoved
		}
		if first {
			n.epoch, began = m.epoch, m.at
		}
		x.applyLocked(n, &m)
		x.count.resyncPages.Add(uint64(len(m.changes)))
		if m.next == 0 {
			if n.drops == drops { // the table may have been made anew for it
				n.learnt, n.at, n.heard = true, began, max(n.heard, began)
			}
			x.mu.Unlock()
			return nil
		}
		place = m.next - 1
		x.mu.Unlock()
	}
}

// ask asks an announcer and reads its answer.
func (x *Index) ask(ctx context.Context, id uint64, q ask, m *report) error {
	ctx, cancel := context.WithTimeout(ctx, learnTimeout)
	defer cancel()
	answer, err := x.cfg.Bus.Request(ctx, askSubject(id), q.text())
	if err != nil {
		return err
	}
	x.count.bytes.Add(uint64(len(answer)))
	if err := m.read(answer); err != nil {
		x.count.malformed.Add(1)
		return err
	}
	if m.id != id {
		return errMoved
	}
	return nil
}
