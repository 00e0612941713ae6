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
	ownSubjects    = "cluster"
	beatSubject    = ownSubjects + ".beat"  // and the kind and owner of the record
	requestSubject = ownSubjects + ".want"  // and the key of the record that is wanted
	storeSubject   = ownSubjects + ".store" // and the user who asks
	replySubject   = ownSubjects + ".reply" // and the user or the instance that asks, and a secret
)

// memberUser stands for members with the secret where subjects name a user.
const memberUser = "member"

// bus carries messages over core NATS.
type bus struct {
	nc      *nats.Conn
	prefix  string      // of subjects
	replies string      // subject below which replies come to this process
	user    string      // that own subjects of this process name
	hearing atomic.Bool // NATS answered the last PING
}

func (b *bus) subject(s string) string { return b.prefix + "." + s }

// checkSubject refuses subjects that NATS refuses, and the subjects of this package. Only
// subscribers may use wildcards.
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

// away returns the error of a call as ErrDown where NATS is out of reach: the call may have found
// that before the connection has.
func away(err error, hearing bool) error {
	if !hearing || errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrDisconnected) {
		return fmt.Errorf("%w: %w", ErrDown, err)
	}
	return err
}

// Publish sends to all present subscribers, at most once. It does not wait; where NATS is out of
// reach it fails at once.
func (b *bus) Publish(subject string, data []byte) error {
	if err := checkSubject(subject, false); err != nil {
		return err
	}
	if !b.hearing.Load() {
		return fmt.Errorf("cannot publish on %s: %w", subject, ErrDown)
	}
	if err := b.nc.Publish(b.subject(subject), data); err != nil {
		return fmt.Errorf("cannot publish on %s: %w", subject, away(err, true))
	}
	return nil
}

// Subscribe calls f with each message on a subject, in order, from one goroutine; * stands for
// one token and a last > for all further ones. f owns data. Messages are dropped while f is far
// behind (Status.Dropped). It survives outages until stop.
func (b *bus) Subscribe(subject string, f func(data []byte)) (stop func(), err error) {
	return b.listen(subject, func(m *nats.Msg) { f(m.Data) })
}

// PublishOwn publishes on a part of a subject that belongs to the token of this process: no holder
// of another token may.
func (b *bus) PublishOwn(subject string, data []byte) error {
	return b.Publish(subject+"."+b.user, data)
}

// SubscribeOwn calls f, as Subscribe does, with each message that was published by PublishOwn and
// the name in the sender's token; "" is a member with the cluster's secret, which may say anything.
func (b *bus) SubscribeOwn(subject string, f func(owner string, data []byte)) (stop func(), err error) {
	own := b.subject(subject) + "."
	return b.listen(subject+".>", func(m *nats.Msg) {
		user := strings.TrimPrefix(m.Subject, own)
		if user == memberUser {
			f("", m.Data)
		} else if h, err := parseUser(user); err == nil {
			f(h.name, m.Data)
		}
	})
}

// ReplyOwn is Reply on a part of a subject that belongs to the token of this process: no holder of
// another token hears the questions there.
func (b *bus) ReplyOwn(subject string, f func(data []byte) []byte) (stop func(), err error) {
	return b.Reply(subject+"."+b.user, f)
}

// RequestNode is Request to a node that answers with ReplyOwn; owner is the name in its token, as
// SubscribeOwn has it.
func (b *bus) RequestNode(ctx context.Context, subject, owner string, data []byte) ([]byte, error) {
	user := memberUser
	if owner != "" {
		user = holder{RoleNode, owner}.user()
	}
	return b.Request(ctx, subject+"."+user, data)
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

// Request returns the first reply on a subject. Without a subscriber it fails with ErrNoReply at
// once. It ends with ctx, or after 3 s where ctx has no deadline: the replier may go away.
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
	answer, err := b.ask(ctx, b.subject(subject), data)
	if err != nil {
		return nil, fmt.Errorf("cannot ask %s: %w", subject, away(err, b.hearing.Load()))
	}
	return answer, nil
}

// ask returns the first reply on a whole subject. Replies come below a subject of our own with a
// random end: of the library's inboxes, whoever has seen one can guess others, JetStream's too.
func (b *bus) ask(ctx context.Context, subject string, data []byte) ([]byte, error) {
	at := b.newReply()
	s, err := b.nc.SubscribeSync(at)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Unsubscribe() }() // fails where all is over
	if err := b.nc.PublishRequest(subject, at, data); err != nil {
		return nil, err
	}
	m, err := s.NextMsgWithContext(ctx)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, ErrNoReply
	case err != nil:
		return nil, err
	}
	return m.Data, nil
}

// newReply draws a subject for replies to this process.
func (b *bus) newReply() string { return b.replies + "." + NewInstance() + NewInstance() }

// Reply answers requests on a subject with the result of f, one after the other, from one
// goroutine. Replies go to subjects of replies alone: a requester names them freely.
func (b *bus) Reply(subject string, f func(data []byte) []byte) (stop func(), err error) {
	return b.listen(subject, func(m *nats.Msg) {
		if strings.HasPrefix(m.Reply, b.subject(replySubject)+".") {
			_ = m.Respond(f(m.Data)) // the requester gives up by itself
		}
	})
}
