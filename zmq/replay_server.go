package zmq

import (
	"bufio"
	"encoding/binary"
	"net"
	"time"
)

// serveReplays answers the replay requests of one connection. Answers wait in the connection,
// not in a queue, so none is dropped.
func (p *Publisher) serveReplays(conn net.Conn) {
	release := closeWhenDone(p.ctx, conn)
	defer release()
	r, _, err := serverHandshake(conn, routerRole, time.Now())
	for err == nil {
		var from uint64
		if from, err = nextReplayRequest(conn, r); err != nil {
			return
		}
		if p.cfg.IgnoreReplay == nil || !p.cfg.IgnoreReplay() {
			err = p.answerReplay(conn, from)
		}
	}
}

// nextReplayRequest returns the first sequence number of the next request: ["", 8 bytes].
// Engines do not answer messages of another form.
func nextReplayRequest(conn net.Conn, r *requestReader) (from uint64, err error) {
	for frames, valid := 0, true; ; {
		flags, body, err := r.next()
		if err != nil {
			return 0, err
		}
		if flags&flagCommand != 0 {
			pong, err := clientCommand(body)
			if err == nil && pong != nil {
				_, err = conn.Write(pong)
			}
			if err != nil {
				return 0, err
			}
			continue
		}
		switch frames++; frames {
		case 1:
			valid = len(body) == 0
		case 2:
			if valid = valid && len(body) == 8; valid {
				from = binary.BigEndian.Uint64(body)
			}
		}
		if flags&flagMore != 0 {
			continue
		}
		if valid && frames == 2 {
			return from, nil
		}
		frames, valid = 0, true
	}
}

// answerReplay sends the stored messages and then the end marker, as SGLang's engines do: a
// subscriber that receives only the marker knows that the messages it lacks are gone.
func (p *Publisher) answerReplay(conn net.Conn, from uint64) error {
	topic := appendBody(nil, flagMore, p.stream.topic)
	end := appendMessage(nil, nil, endSeq, nil)
	skip := 0
	if p.cfg.ReplayWithoutTopic {
		skip, end = len(topic), end[len(appendBody(nil, flagMore, nil)):]
	}
	w := bufio.NewWriterSize(conn, maxWriteBytes)
	delimiter := []byte{flagMore, 0}
	for _, m := range p.stream.stored(from) {
		_, _ = w.Write(delimiter) // The first error of a bufio.Writer stays, and Flush returns it.
		if _, err := w.Write(m.wire[skip:]); err != nil {
			return err
		}
	}
	_, _ = w.Write(delimiter)
	_, _ = w.Write(end)
	return w.Flush()
}
