package ingest

import "github.com/warmpath/warmpath/zmq"

// heldBack are live messages that wait for the end of a replay.
type heldBack struct {
	messages []zmq.Message
	bytes    int
}

// add keeps a copy of a message; false: it has no room for it.
func (h *heldBack) add(msg zmq.Message, limit int) bool {
	const each = 64 // bytes for the message itself
	if h.bytes+len(msg.Payload)+each > limit {
		return false
	}
	h.bytes += len(msg.Payload) + each
	msg.Topic = nil
	h.messages = append(h.messages, msg.Clone())
	return true
}

func (h *heldBack) any() bool { return len(h.messages) > 0 }

func (h *heldBack) drop() { *h = heldBack{} }

// take returns the messages and keeps none.
func (h *heldBack) take() []zmq.Message {
	messages := h.messages
	h.drop()
	return messages
}
