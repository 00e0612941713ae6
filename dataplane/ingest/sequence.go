package ingest

import (
	"github.com/warmpath/warmpath/radix"
	"github.com/warmpath/warmpath/zmq"
)

// sequence checks the order of a rank's messages and knows the position of its content in them.
type sequence struct {
	index *radix.Index // has the key of the digests

	joined   bool     // next is known
	next     uint64   // sequence number expected next
	last     uint64   // digest of the payload of message next-1
	first    uint64   // sequence number of the first message in the content
	empty    bool     // no message was applied since the content was dropped
	complete bool     // every event since the rank's start was applied
	mark     position // of the content
	recent   [recentMessages]received

	live  uint64 // last sequence number of the subscription
	heard bool   // live is meaningful
}

// recentMessages is the number of messages of which a repetition is recognized. A publisher that
// connects anew may send its last ones again.
const recentMessages = 64

// received is an applied message.
type received struct{ after, digest uint64 } // after is its number + 1; 0: there is none

// repeats reports whether msg was applied before, byte for byte. Batches have time stamps, so that
// another process sends no equal ones.
func (s *sequence) repeats(msg zmq.Message) bool {
	r := s.recent[msg.Seq%recentMessages]
	return r.after == msg.Seq+1 && r.digest == s.digest(msg)
}

// applied notes that the content now includes a message.
func (s *sequence) applied(msg zmq.Message) {
	if s.empty {
		s.first, s.empty = msg.Seq, false
	}
	s.next, s.joined, s.last = msg.Seq+1, true, s.digest(msg)
	s.mark = position{s.next, s.last, s.complete}
	s.recent[msg.Seq%recentMessages] = received{s.next, s.last}
}

// restore begins at the position of a snapshot.
func (s *sequence) restore(at position) {
	s.mark = at
	s.next, s.last, s.complete, s.joined = at.Next, at.Last, at.Complete, true
}

// restart begins before the first message of a replay.
func (s *sequence) restart(complete bool) { s.joined, s.complete, s.next = false, complete, 0 }

// missed notes that seq is the next message. It reports whether messages before it are missing,
// so that the content must be dropped.
func (s *sequence) missed(seq uint64) (missing bool) {
	missing = s.joined && s.next < seq
	s.next, s.joined = max(s.next, seq), true
	return missing
}

// dropped notes that the content was dropped and belongs to no position.
func (s *sequence) dropped() { s.mark, s.empty = position{}, true }

// isLast reports whether msg has the payload that was applied last.
func (s *sequence) isLast(msg zmq.Message) bool { return s.digest(msg) == s.last }

// digest is a hash of a message's payload under the index's key, which a snapshot keeps.
func (s *sequence) digest(msg zmq.Message) uint64 { return uint64(s.index.Digest(msg.Payload)) }
