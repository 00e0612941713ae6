package ingest

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/zmq"
)

const (
	// minCheckPause bounds how fast checks follow each other while one is overdue.
	minCheckPause = 100 * time.Millisecond
	// maxBackOff bounds the time between resyncs that do not help, in Config.ResyncEvery: 5
	// minutes by default.
	maxBackOff = 32
	// maxFailed bounds the time between replays without a whole answer, as a power of two: 20 s by
	// default. A rank that is well again is exact that soon, and one that hangs up or sends half of
	// its buffer costs 3 replays a minute.
	maxFailed = 2
)

// schedule decides when a rank is checked and when it may be learnt again.
type schedule struct {
	cfg      *Config
	resynced time.Time     // last resync, or try at one
	wait     time.Duration // between resyncs because of orphans or holes
	quiet    time.Time     // last message of the subscription, or last check
	checked  time.Time     // last check
	failed   int           // replays in a row without a whole answer
}

// due returns when the rank must be checked: TailCheck after its last message, because a later
// message would reveal a gap by itself. A rank whose predicted overlaps prove wrong is checked
// while it is busy too, the more often the fewer of them hold.
func (s *schedule) due(trust *worker.Trust) time.Time {
	every, from := s.cfg.TailCheck, s.quiet
	if often := trust.CheckEvery(time.Now()); often < every {
		every, from = often, s.checked
	}
	return from.Add(every << s.failed)
}

// pause returns the time until the next check.
func (s *schedule) pause(trust *worker.Trust) time.Duration {
	return min(max(time.Until(s.due(trust)), minCheckPause), s.cfg.TailCheck)
}

// mayResync reports whether the wait since the last resync is over.
func (s *schedule) mayResync(now time.Time) bool {
	wait := s.wait
	if s.failed > 0 {
		wait = max(wait, s.cfg.TailCheck<<s.failed)
	}
	return now.Sub(s.resynced) >= wait
}

// backOff doubles the wait before the next resync, after one that has not helped.
func (s *schedule) backOff() { s.wait = min(2*s.wait, maxBackOff*s.cfg.ResyncEvery) }

// unanswered notes a replay that failed. Whether those before it helped says nothing about the next
// one.
func (s *schedule) unanswered() {
	s.failed, s.wait = min(s.failed+1, maxFailed), s.cfg.ResyncEvery
}

// A replay costs the engine and this process work. A rank with meaningless sequence numbers would
// cause one with each message: beyond these bounds it is followed without its history, which is
// learnt later.
const (
	maxReplayBurst = 64
	replayInterval = 250 * time.Millisecond
)

// errReplayRate is a replay that was not asked for.
var errReplayRate = errors.New("ingest: too many replays in a short time")

// replayLimit is a token bucket of maxReplayBurst replays, one more each replayInterval. The zero
// value is full.
type replayLimit struct {
	full time.Time // when it is full again
}

// take reports whether a replay is allowed, and counts it.
func (l *replayLimit) take(now time.Time) bool {
	if l.full.Before(now) {
		l.full = now
	}
	next := l.full.Add(replayInterval)
	if next.Sub(now) > maxReplayBurst*replayInterval {
		return false
	}
	l.full = next
	return true
}

// severity is the log level of a replay's failure. Refused replays come often and were logged.
func severity(err error) slog.Level {
	if errors.Is(err, errReplayRate) {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// backlog holds live messages that wait for the end of a replay.
type backlog struct {
	messages []zmq.Message
	bytes    int
}

// add keeps a copy of a message; false: there is no room for it.
func (b *backlog) add(msg zmq.Message, limit int) bool {
	const overhead = 64 // bytes of the message itself
	if b.bytes+len(msg.Payload)+overhead > limit {
		return false
	}
	b.bytes += len(msg.Payload) + overhead
	msg.Topic = nil
	b.messages = append(b.messages, msg.Clone())
	return true
}

// repeats reports whether an equal message waits.
func (b *backlog) repeats(msg zmq.Message) bool {
	return slices.ContainsFunc(b.messages, func(m zmq.Message) bool { return m.Seq == msg.Seq && bytes.Equal(m.Payload, msg.Payload) })
}

func (b *backlog) any() bool { return len(b.messages) > 0 }

// missingFrom returns the number of messages between next and the first waiting one.
func (b *backlog) missingFrom(next uint64) uint64 {
	first := b.messages[0].Seq
	return first - min(next, first)
}

func (b *backlog) drop() { *b = backlog{} }

// take returns the messages and keeps none.
func (b *backlog) take() []zmq.Message {
	messages := b.messages
	b.drop()
	return messages
}
