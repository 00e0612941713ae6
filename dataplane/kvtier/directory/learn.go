package directory

import (
	"context"
	"errors"
	"time"

	"github.com/warmpath/warmpath/dataplane/kvtier/announce"
)

const (
	maxLearners  = 4               // nodes learnt at once
	learnTimeout = 3 * time.Second // of one question
	learnPause   = time.Second     // after a question without an answer
	// learnMost is the longest turn of a node: 11 million pages are read in some 20 s. A node that
	// never ends leaves its place to others, and for as long as it had it.
	learnMost = time.Minute
)

// errRestarted says that a node has begun anew or left while it was learnt.
var errRestarted = errors.New("directory: the node has begun anew")

// announcer is the address of questions about a node.
type announcer struct {
	owner string
	id    uint64
}

func (n *node) who() announcer { return announcer{n.owner, n.announcer} }

// nextBehind returns the node that the caller has to learn, of several the one with the oldest last
// turn, or nil.
func (x *Index) nextBehind(now time.Time) *node {
	x.mu.Lock()
	defer x.mu.Unlock()
	var next *node
	for _, n := range x.contents.nodes {
		if n.behind() && x.contents.numbers[n.name] != 0 && !now.Before(n.retry) && (next == nil || n.turn.Before(next.turn)) {
			next = n
		}
	}
	if next != nil {
		next.learning, next.turn = true, now
	}
	return next
}

// learn asks an announcer until all announced changes are applied.
func (x *Index) learn(ctx context.Context, n *node) {
	ctx, cancel := context.WithTimeout(ctx, learnMost)
	defer cancel()
	begun := time.Now()
	more, err := true, error(nil)
	for more && err == nil {
		more, err = x.learnStep(ctx, n)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	n.learning = false
	if err != nil {
		if !errors.Is(err, errRestarted) {
			x.counts.failed.Add(1)
		}
		n.retry = time.Now().Add(max(learnPause, time.Since(begun)))
	}
}

// learnStep asks for the contents of a node or for missing changes. It reports whether there may be
// more.
func (x *Index) learnStep(ctx context.Context, n *node) (more bool, err error) {
	x.mu.Lock()
	known, who, epoch, from, generation, behind := n.known, n.who(), n.epoch, n.applied, n.generation, n.announced > n.applied
	x.mu.Unlock()
	switch {
	case !known:
		return true, x.learnContents(ctx, n)
	case !behind:
		return false, nil
	}
	var m announce.Report
	if err := x.ask(ctx, who, announce.Question{Type: announce.TypeAskMissing, Epoch: epoch, Number: from}, &m); err != nil {
		return false, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case n.who() != who || n.generation != generation:
		return false, errRestarted
	case m.Type == announce.TypeForgotten || m.Epoch != epoch:
		n.known = false
	case m.Type != announce.TypeMissing || m.From != from || m.Next <= from:
		return false, announce.ErrMessage
	default:
		x.counts.caughtUp.Add(1)
		x.contents.apply(n, &m)
		n.announced = max(n.announced, n.applied)
	}
	return true, nil
}

// learnContents reads all pages of a node, in parts.
func (x *Index) learnContents(ctx context.Context, n *node) error {
	x.mu.Lock()
	x.contents.drop(n)
	who, generation, place, first := n.who(), n.generation, uint64(0), uint64(0)
	x.mu.Unlock()
	x.counts.resyncs.Add(1)
	for part := 0; ; part++ {
		var m announce.Report
		if err := x.ask(ctx, who, announce.Question{Type: announce.TypeAskContents, Number: place}, &m); err != nil {
			return err
		}
		if m.Type != announce.TypeContents || (m.Next != 0 && m.Next-1 <= place) {
			return announce.ErrMessage
		}
		x.mu.Lock()
		if n.who() != who || n.generation != generation || (part > 0 && m.Epoch != n.epoch) {
			x.mu.Unlock()
			return errRestarted
		}
		if part == 0 {
			n.epoch, first = m.Epoch, m.From
		}
		x.contents.apply(n, &m)
		x.counts.resyncPages.Add(uint64(len(m.Changes)))
		if m.Next == 0 {
			if n.generation == generation { // unless the table was replaced for it
				n.known, n.applied, n.announced = true, first, max(n.announced, first)
			}
			x.mu.Unlock()
			return nil
		}
		place = m.Next - 1
		x.mu.Unlock()
	}
}

// ask asks an announcer and reads its answer.
func (x *Index) ask(ctx context.Context, who announcer, q announce.Question, m *announce.Report) error {
	ctx, cancel := context.WithTimeout(ctx, learnTimeout)
	defer cancel()
	answer, err := x.cfg.Bus.RequestNode(ctx, announce.SubjectQuestion(who.id), who.owner, q.Append(nil))
	if err != nil {
		return err
	}
	x.counts.bytes.Add(uint64(len(answer)))
	if err := m.Read(answer); err != nil {
		x.counts.malformed.Add(1)
		return err
	}
	if m.Announcer != who.id {
		return errRestarted
	}
	return nil
}
