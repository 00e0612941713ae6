package zmq

import (
	"bytes"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// maxWriteBytes is about the most that one system call writes to a subscriber.
	maxWriteBytes = 64 << 10
	// maxWriteMessages is IOV_MAX, less one for a PONG.
	maxWriteMessages = 1023
)

// subscriberConn is a publisher's connection to one subscriber. One goroutine reads its
// subscriptions, another one writes its queue.
type subscriberConn struct {
	stream *liveStream
	conn   net.Conn
	ready  *sync.Cond // On the stream's mutex, which guards the following fields.

	prefixes prefixSet
	queue    sendQueue
	pong     []byte // Answers the last PING; written before messages.
	closed   bool
}

// serveSubscriber serves one subscriber until its connection ends.
func (p *Publisher) serveSubscriber(conn net.Conn) error {
	release := closeWhenDone(p.ctx, conn)
	defer release()
	r, _, err := serverHandshake(conn, pubRole, time.Now())
	if err != nil {
		return err
	}
	c := p.stream.add(conn)
	var writer sync.WaitGroup
	writer.Go(c.write)
	err = c.read(r)
	p.stream.remove(c)
	_ = conn.Close() // Ends a write that the subscriber does not take.
	writer.Wait()
	return err
}

// read takes subscriptions and PINGs until the connection ends or the peer breaks the protocol.
// As libzmq does, it accepts subscriptions as commands (ZMTP 3.1) and as frames (3.0) alike,
// and ignores other frames.
func (c *subscriberConn) read(r *requestReader) error {
	for {
		flags, body, err := r.next()
		if err != nil {
			return err
		}
		topic, change := subscription(flags, body)
		switch {
		case change != noChange:
			c.stream.subscribe(c, topic, change)
		case flags&flagCommand != 0:
			pong, err := clientCommand(body)
			if err != nil {
				return err
			}
			c.stream.answer(c, pong)
		}
	}
}

// subscriptionChange is the effect of a frame on a connection's subscriptions.
type subscriptionChange uint8

const (
	noChange subscriptionChange = iota
	subscribed
	canceled
)

// subscription reads a frame as a subscription or its end. The topic aliases body.
func subscription(flags byte, body []byte) (topic []byte, change subscriptionChange) {
	if flags&flagCommand != 0 {
		if topic, ok := bytes.CutPrefix(body, []byte(subscribeCommand)); ok {
			return topic, subscribed
		}
		if topic, ok := bytes.CutPrefix(body, []byte(cancelCommand)); ok {
			return topic, canceled
		}
		return nil, noChange
	}
	switch {
	case len(body) > 0 && body[0] == 1:
		return body[1:], subscribed
	case len(body) > 0 && body[0] == 0:
		return body[1:], canceled
	}
	return nil, noChange
}

// subscribe applies a subscription. Only prefixes of the stream's own topic have an effect, so a
// subscriber of a million topics costs nothing.
func (s *liveStream) subscribe(c *subscriberConn, topic []byte, change subscriptionChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes.HasPrefix(s.topic, topic) {
		c.prefixes[len(topic)] = change == subscribed
	}
	if change == subscribed {
		s.subscriptions++
		close(s.subscribed)
		s.subscribed = make(chan struct{})
	}
}

// answer queues a PONG. One that was not written yet is replaced.
func (s *liveStream) answer(c *subscriberConn, pong []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pong != nil {
		c.pong = pong
		c.ready.Signal()
	}
}

// write sends the queue until the connection ends. A subscriber that does not read holds up
// only its own writer; its queue fills, and further messages are dropped.
func (c *subscriberConn) write() {
	var batch [][]byte
	for {
		if batch = c.take(batch[:0]); len(batch) == 0 {
			return
		}
		buffers := net.Buffers(batch)
		if _, err := buffers.WriteTo(c.conn); err != nil {
			_ = c.conn.Close() // Ends read.
			return
		}
	}
}

// take waits until something can be written and appends it to batch. It appends nothing once the
// connection has ended.
func (c *subscriberConn) take(batch [][]byte) [][]byte {
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	for !c.closed && c.pong == nil && len(c.queue.messages) == 0 {
		c.ready.Wait()
	}
	if c.closed {
		return batch
	}
	if c.pong != nil {
		batch, c.pong = append(batch, c.pong), nil
	}
	return c.queue.take(batch, c.stream.limit)
}

// prefixSet tells for each length whether the stream's topic is subscribed up to there.
type prefixSet []bool

// any reports whether the topic itself matches.
func (p prefixSet) any() bool { return slices.Contains(p, true) }

// sendQueue is one subscriber's queue. Beyond its limit, the high-water mark, messages are
// dropped until it is half empty, as libzmq does: a slow subscriber has few long gaps instead
// of many short ones.
type sendQueue struct {
	messages [][]byte
	full     bool
}

// push reports false for a message that it drops.
func (q *sendQueue) push(message []byte, limit int) bool {
	if q.full = q.full || len(q.messages) >= limit; q.full {
		return false
	}
	q.messages = append(q.messages, message)
	return true
}

// take moves messages for one write to batch.
func (q *sendQueue) take(batch [][]byte, limit int) [][]byte {
	n, size := 0, 0
	for n < len(q.messages) && n < maxWriteMessages && size < maxWriteBytes {
		size += len(q.messages[n])
		n++
	}
	batch = append(batch, q.messages[:n]...)
	clear(q.messages[:n]) // The array behind the slice must not hold them any longer.
	if q.messages = q.messages[n:]; len(q.messages) <= limit/2 {
		q.full = false
	}
	return batch
}
