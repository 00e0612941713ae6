package zmq

import (
	"encoding/binary"
	"net"
	"sync"
)

// liveStream numbers a publisher's messages, stores the last ones for replay and queues each for
// the subscribers of its topic. One mutex guards all of it, so that every subscriber and every
// replay sees the same order.
type liveStream struct {
	topic []byte
	limit int // Of each subscriber's queue.

	mu            sync.Mutex
	next          uint64 // guarded by mu, as are the following fields
	history       history
	subscribers   map[*subscriberConn]struct{}
	dropped       int
	subscriptions int           // That have arrived since the start.
	subscribed    chan struct{} // Closed and replaced when subscriptions grows.
	closed        bool
}

func newLiveStream(cfg *PublisherConfig) *liveStream {
	return &liveStream{
		topic: []byte(cfg.Topic), limit: cfg.HWM, next: cfg.FirstSeq,
		history:     history{limit: cfg.BufferSteps},
		subscribers: map[*subscriberConn]struct{}{},
		subscribed:  make(chan struct{}),
	}
}

// publish stores a message and, if it is live, queues it for subscribers. A closed stream still
// counts.
func (s *liveStream) publish(payload []byte, live bool) (seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seq = s.next
	s.next++
	if s.closed {
		return seq
	}
	m := storedMessage{seq, appendMessage(nil, s.topic, seq, payload)}
	s.history.push(m)
	if !live {
		return seq
	}
	for c := range s.subscribers {
		if c.prefixes.any() && !c.queue.push(m.wire, s.limit) {
			s.dropped++
		}
		c.ready.Signal()
	}
	return seq
}

func (s *liveStream) skip() (seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	return s.next - 1
}

// close makes the stream take no more messages.
func (s *liveStream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.history = history{}
}

// add makes conn a subscriber of nothing yet.
func (s *liveStream) add(conn net.Conn) *subscriberConn {
	c := &subscriberConn{
		stream: s, conn: conn, ready: sync.NewCond(&s.mu), prefixes: make(prefixSet, len(s.topic)+1),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers[c] = struct{}{}
	return c
}

// remove forgets a subscriber and wakes its writer, which ends.
func (s *liveStream) remove(c *subscriberConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subscribers, c)
	c.closed = true
	c.ready.Signal()
}

// subscriptionCount returns the number of subscriptions so far, and a channel that is closed at
// the next one.
func (s *liveStream) subscriptionCount() (n int, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subscriptions, s.subscribed
}

// stored returns the messages from a sequence number on that can still be replayed.
func (s *liveStream) stored(from uint64) []storedMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.history.from(from)
}

// storedMessage is a message in the form that subscribers receive. Queues and replays share its
// bytes.
type storedMessage struct {
	seq  uint64
	wire []byte
}

// history is a ring of the last messages.
type history struct {
	limit  int
	ring   []storedMessage
	oldest int // Index of the oldest message once the ring is full.
}

func (h *history) push(m storedMessage) {
	if len(h.ring) < h.limit {
		h.ring = append(h.ring, m)
		return
	}
	h.ring[h.oldest] = m
	h.oldest = (h.oldest + 1) % h.limit
}

// from returns the messages from a sequence number on, oldest first.
func (h *history) from(seq uint64) (messages []storedMessage) {
	for i := range h.ring {
		if m := h.ring[(h.oldest+i)%len(h.ring)]; m.seq >= seq {
			messages = append(messages, m)
		}
	}
	return messages
}

// appendMessage appends the three frames of a live message.
func appendMessage(b, topic []byte, seq uint64, payload []byte) []byte {
	if b == nil { // Three heads of at most nine bytes, and the sequence.
		b = make([]byte, 0, len(topic)+len(payload)+3*9+8)
	}
	b = appendBody(b, flagMore, topic)
	b = append(b, flagMore, 8)
	b = binary.BigEndian.AppendUint64(b, seq)
	return appendBody(b, 0, payload)
}

// appendBody appends a frame of any length.
func appendBody(b []byte, flags byte, body []byte) []byte {
	if len(body) > 255 {
		b = binary.BigEndian.AppendUint64(append(b, flags|flagLong), uint64(len(body)))
	} else {
		b = append(b, flags, byte(len(body)))
	}
	return append(b, body...)
}
