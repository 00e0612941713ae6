package zmq

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	zmq4 "github.com/pebbe/zmq4"
)

// Run sends what is published and answers replays until ctx is done or Close is called; then it closes everything and
// returns nil. What is queued by then is still handed to ZeroMQ. It runs once.
func (p *Publisher) Run(ctx context.Context) error {
	end, err := p.begin(ctx)
	if err != nil {
		return fmt.Errorf("cannot run publisher: %w", err)
	}
	err = p.loop()
	end()
	return errors.Join(err, p.release(p.pub, p.router))
}

func (p *Publisher) loop() error {
	// Sockets of ZeroMQ belong to one goroutine: what others publish lies in the queue, and the wake-up tells of it.
	poller := zmq4.NewPoller()
	poller.Add(p.wake.in, zmq4.POLLIN)
	poller.Add(p.pub, zmq4.POLLIN) // an XPUB: subscriptions can be read from it
	if p.router != nil {
		poller.Add(p.router, zmq4.POLLIN)
	}
	for {
		open, err := p.flush()
		if err != nil || !open {
			return err
		}
		if err := p.countSubscriptions(); err != nil {
			return err
		}
		if err := p.serveReplays(); err != nil {
			return err
		}
		if _, err := poller.Poll(-1); err != nil {
			return fmt.Errorf("cannot poll: %w", err)
		}
	}
}

// flush sends the queue and reports whether the publisher is still open.
func (p *Publisher) flush() (open bool, err error) {
	p.awakeLocked()
	queue := p.queue
	p.queue = nil
	open = !p.closed
	p.mu.Unlock()
	for _, m := range queue {
		if m.live {
			if _, err := p.pub.SendMessageDontwait(p.topic, putSeq(m.seq), m.payload); err != nil && !again(err) {
				return open, fmt.Errorf("cannot publish sequence %d: %w", m.seq, err)
			}
		}
		p.kept.push(m)
	}
	return open, nil
}

// countSubscriptions reads what XPUB tells of subscribers: 1 and the topic, or 0 and the topic for the end of one.
func (p *Publisher) countSubscriptions() error {
	n := 0
	for {
		var f frames
		err := f.recv(p.pub)
		if again(err) {
			break
		}
		if err != nil {
			return fmt.Errorf("cannot read subscriptions: %w", err)
		}
		if b := f.part[0]; len(b) > 0 && b[0] == 1 {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	p.mu.Lock()
	p.subscriptions += n
	close(p.subscribed)
	p.subscribed = make(chan struct{})
	p.mu.Unlock()
	return nil
}

// serveReplays answers the requests that wait: [peer, "", first sequence].
func (p *Publisher) serveReplays() error {
	for p.router != nil {
		var f frames
		err := f.recv(p.router)
		if again(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read replay request: %w", err)
		}
		if f.n != 3 || len(f.part[2]) != 8 {
			continue // Engines do not answer such a request either.
		}
		if p.ignoreReplay != nil && p.ignoreReplay() {
			continue
		}
		if err := p.replay(f.part[0], binary.BigEndian.Uint64(f.part[2])); err != nil {
			return fmt.Errorf("cannot answer replay: %w", err)
		}
	}
	return nil
}

// replay answers with what is kept from a sequence number on, and then with the end mark, as SGLang's engines do: a subscriber that gets
// only the mark knows that what it lacks is gone.
func (p *Publisher) replay(peer []byte, from uint64) error {
	for m := range p.kept.all {
		if m.seq < from {
			continue
		}
		if err := p.answer(peer, p.topic, m.seq, m.payload); err != nil {
			return err
		}
	}
	return p.answer(peer, nil, endSeq, nil)
}

// answer sends one message to a peer; a ROUTER drops what it cannot send.
func (p *Publisher) answer(peer, topic []byte, seq uint64, payload []byte) error {
	parts := []any{peer, []byte(nil), topic, putSeq(seq), payload}
	if p.replayWithoutTopic {
		parts = []any{peer, []byte(nil), putSeq(seq), payload}
	}
	if _, err := p.router.SendMessageDontwait(parts...); err != nil && !again(err) {
		return err
	}
	return nil
}

// ring keeps the last messages.
type ring struct {
	limit int
	buf   []outgoing
	first int // index of the oldest once buf is full
}

func (r *ring) push(m outgoing) {
	if len(r.buf) < r.limit {
		r.buf = append(r.buf, m)
		return
	}
	r.buf[r.first] = m
	r.first = (r.first + 1) % r.limit
}

// all yields the messages from the oldest on.
func (r *ring) all(yield func(outgoing) bool) {
	for i := range r.buf {
		if !yield(r.buf[(r.first+i)%len(r.buf)]) {
			return
		}
	}
}
