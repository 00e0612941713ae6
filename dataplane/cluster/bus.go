package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// Subjects of our own, below the prefix. Others may not begin with "cluster".
const (
	ownSubjects = "cluster"
	beatSubject = ownSubjects + ".beat"
	wantSubject = ownSubjects + ".want" // and the key of the record that is wanted
)

// bus carries messages over core NATS.
type bus struct {
	nc      *nats.Conn
	prefix  string      // of subjects
	hearing atomic.Bool // NATS answered the last PING
}

func (b *bus) subject(s string) string { return b.prefix + "." + s }

// checkSubject refuses what NATS would, and what is ours. Wildcards are for those who listen.
func checkSubject(s string, wild bool) error {
	for token := range strings.SplitSeq(s, ".") {
		switch {
		case token == "" || strings.ContainsAny(token, " \t\r\n"),
			!wild && strings.ContainsAny(token, "*>"):
			return fmt.Errorf("%w: subject %q", ErrConfig, s)
		}
	}
	if first, _, _ := strings.Cut(s, "."); first == ownSubjects || first == ">" || first == "*" {
		return fmt.Errorf("%w: subject %q holds messages of package cluster", ErrConfig, s)
	}
	return nil
}

// Publish sends to all who listen now, at most once. It does not wait; where NATS is out of reach it fails at once.
func (b *bus) Publish(subject string, data []byte) error {
	if err := checkSubject(subject, false); err != nil {
		return err
	}
	if !b.hearing.Load() {
		return fmt.Errorf("cannot publish on %s: %w", subject, ErrDown)
	}
	if err := b.nc.Publish(b.subject(subject), data); err != nil {
		return fmt.Errorf("cannot publish on %s: %w", subject, err)
	}
	return nil
}

// Subscribe calls f with each message on a subject, in order, from one goroutine; * stands for one token and a last > for all that
// follow. f owns data. Messages that come while f is far behind are dropped (Status.Dropped). It holds through outages until stop.
func (b *bus) Subscribe(subject string, f func(data []byte)) (stop func(), err error) {
	return b.listen(subject, func(m *nats.Msg) { f(m.Data) })
}

func (b *bus) listen(subject string, f nats.MsgHandler) (stop func(), err error) {
	if err := checkSubject(subject, true); err != nil {
		return nil, err
	}
	s, err := b.nc.Subscribe(b.subject(subject), f)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", subject, err)
	}
	return func() { _ = s.Unsubscribe() }, nil // fails where all is over
}

// Request asks who replies on a subject and returns the first answer. It fails with ErrNoReply at once where nobody does, and
// when ctx ends, or after 3 s where ctx has no deadline: a request may reach somebody who goes away.
func (b *bus) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	if err := checkSubject(subject, false); err != nil {
		return nil, err
	}
	if !b.hearing.Load() {
		return nil, fmt.Errorf("cannot ask %s: %w", subject, ErrDown)
	}
	if _, ok := ctx.Deadline(); !ok {
		bounded, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		ctx = bounded
	}
	m, err := b.nc.RequestWithContext(ctx, b.subject(subject), data)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, fmt.Errorf("cannot ask %s: %w", subject, ErrNoReply)
	case err != nil:
		return nil, fmt.Errorf("cannot ask %s: %w", subject, err)
	}
	return m.Data, nil
}

// Reply answers requests on a subject with what f returns, one after the other, from one goroutine.
func (b *bus) Reply(subject string, f func(data []byte) []byte) (stop func(), err error) {
	return b.listen(subject, func(m *nats.Msg) {
		if m.Reply != "" {
			_ = m.Respond(f(m.Data)) // who asked gives up by himself
		}
	})
}
