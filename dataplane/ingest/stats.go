package ingest

import (
	"sync/atomic"
	"time"
)

// State is how well a stream knows its rank.
type State uint32

const (
	// Connecting is a stream before its first connection.
	Connecting State = iota
	// Replaying learns the events that the rank published before.
	Replaying
	// Live knows all events that the rank still has.
	Live
	// Degraded follows the rank without its history.
	Degraded
	// Restored is a snapshot, until the rank's replay has brought the changes since.
	Restored
	// Unverified knew all, and waits for a proof that it still does: messages are missing, the
	// connection was lost, or a check had no answer.
	Unverified
)

// String names the state as /status shows it.
func (s State) String() string {
	return [...]string{"connecting", "replaying", "live", "degraded", "restored", "unproven"}[s]
}

// Stats counts the events of a stream; all fields may be read at any time.
type Stats struct {
	state      atomic.Uint32
	Batches    atomic.Uint64 // messages applied
	Sequence   atomic.Uint64 // of the last one
	Gaps       atomic.Uint64 // times that a sequence number was not the next one
	Lost       atomic.Uint64 // messages missing in gaps that no replay filled
	Replayed   atomic.Uint64 // messages that a replay brought
	Duplicates atomic.Uint64 // messages that came by replay and again live
	// Lost connections to the rank's publisher, and the first one if it failed.
	Disconnects     atomic.Uint64
	Restarts        atomic.Uint64 // times that another process was found to publish
	Resyncs         atomic.Uint64 // times that the rank was learnt again, the first included
	Mutes           atomic.Uint64 // times that the rank computed prompts and published no events
	Malformed       atomic.Uint64 // frames, payloads or events that could not be read
	UnknownEvents   atomic.Uint64 // events of types that we do not know
	UnknownFields   atomic.Uint64 // fields that we do not know
	UnknownParents  atomic.Uint64 // stores with an unknown parent
	UnknownRemovals atomic.Uint64 // removals of blocks that we never saw
	// Stores without room in the index's budget, or with an evicted parent: no event was lost.
	BeyondBudget    atomic.Uint64
	EvictedRemovals atomic.Uint64 // removals of unknown blocks, of a rank with evicted blocks
	// Nanoseconds from the last live batch's time stamp to its application.
	lag atomic.Int64
}

// State returns how well the rank is known.
func (s *Stats) State() State { return State(s.state.Load()) }

func (s *Stats) setState(st State) { s.state.Store(uint32(st)) }

// Lag returns the time between the last live batch's time stamp, taken by the
// engine when it was published, and its application here. Clocks of two hosts
// differ: it is never below zero.
func (s *Stats) Lag() time.Duration { return time.Duration(s.lag.Load()) }

func (s *Stats) delayed(now time.Time, stamp float64) {
	s.lag.Store(max(now.UnixNano()-int64(stamp*1e9), 0))
}
