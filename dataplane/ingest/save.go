package ingest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/radix"
)

// restoredFor is how long a restored rank waits for its worker: the time of a rolling restart of
// the whole cluster.
const restoredFor = 10 * time.Minute

// position is the point in a rank's stream up to which its content counts in
// all messages.
type position struct {
	// Sequence number of the first message that is not in it; 0: the position is unknown.
	Next     uint64
	Last     uint64 // hash of the payload of message Next-1
	Complete bool   // every event since the rank's start was seen
}

// saved accompanies each holder of a rank in a snapshot. A holder with another position than the
// rank's others is dropped.
type saved struct {
	Rank  string
	Group int // of KV layers
	Model string
	At    position
	// Shapes are needed before the first event has them again.
	Shapes []Shape
	// Partial is set when the index's budget had evicted blocks.
	Partial bool `json:",omitempty"`
}

// restored is a rank of a snapshot that no stream has taken over yet.
type restored struct {
	saved
	holders map[int]radix.Worker // by KV group
	since   time.Time
}

// Restore takes over the workers that an index was loaded with. It must come
// before the first Up.
func (m *Manager) Restore(workers []radix.Restored) (ranks int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for _, w := range workers {
		var v saved
		if err := json.Unmarshal(w.Meta, &v); err != nil || v.At.Next == 0 {
			m.cfg.Log.Warn("cannot use a worker of the snapshot; leaving it out", "name", w.Name, "error", err)
			m.index.RemoveWorker(w.Worker)
			continue
		}
		r := m.restored[v.Rank]
		if r == nil {
			r = &restored{saved: v, holders: make(map[int]radix.Worker), since: now}
			m.restored[v.Rank] = r
		}
		if _, twice := r.holders[v.Group]; twice || r.At != v.At {
			m.cfg.Log.Warn("the snapshot has two states of a worker; leaving one out", "rank", v.Rank, "group", v.Group)
			m.index.RemoveWorker(w.Worker)
			continue
		}
		r.holders[v.Group] = w.Worker
		if v.Partial {
			m.index.SetPartial(w.Worker)
		}
	}
	return len(m.restored)
}

// adoptLocked gives a new stream the snapshot of its rank. Without a replay no proof could
// confirm it.
func (m *Manager) adoptLocked(s *Stream) {
	r := m.restored[s.rank.ID()]
	if r == nil {
		return
	}
	f := &s.follower
	if r.Model != s.content.model || f.recovery.endpoint == "" {
		m.dropLocked(r)
		return
	}
	delete(m.restored, r.Rank)
	s.content.restore(r.holders, r.Shapes)
	f.restore(r.At)
	f.unverified = true
	s.Stats.Sequence.Store(f.next - 1)
	f.setState(Restored)
}

// dropLocked takes a restored rank out of the index.
func (m *Manager) dropLocked(r *restored) {
	delete(m.restored, r.Rank)
	for _, id := range r.holders {
		m.index.RemoveWorker(id)
	}
}

// Save puts all ranks into a snapshot, each with the position of its content. Ranks without a
// known history are left out. Restored ranks whose workers have not come up are included, for 10
// minutes.
func (m *Manager) Save(w *radix.SnapshotWriter) error {
	done := make(map[string]bool)
	for _, id := range m.waiting() {
		ok, err := m.saveWaiting(w, id)
		if err = errors.Join(err, w.Flush()); err != nil {
			return err
		}
		done[id] = ok
	}
	for _, s := range m.all() {
		// A rank that waited a moment ago was saved in that state.
		if done[s.rank.ID()] {
			continue
		}
		if err := errors.Join(s.save(w), w.Flush()); err != nil {
			return err
		}
	}
	return nil
}

// waiting returns the restored ranks without a stream, and drops the ones that waited too long.
func (m *Manager) waiting() (ids []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, r := range m.restored {
		if time.Since(r.since) > restoredFor {
			m.cfg.Log.Info("worker of the snapshot did not come up; forgetting it", "rank", id)
			m.dropLocked(r)
			continue
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (m *Manager) all() (streams []*Stream) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, of := range m.streams {
		streams = append(streams, of...)
	}
	return streams
}

// saveWaiting saves a rank that waits for its worker. The lock keeps a stream
// from taking it over meanwhile.
func (m *Manager) saveWaiting(w *radix.SnapshotWriter, id string) (ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.restored[id]
	if r == nil {
		return false, nil
	}
	return true, r.take(w, m.index, r.holders)
}

// save saves the rank's blocks at this moment, between two messages.
func (s *Stream) save(w *radix.SnapshotWriter) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	// A stream that is being stopped may have given up a gap.
	f := &s.follower
	if f.mark.Next == 0 || s.Stats.State() == Degraded || s.ctx.Err() != nil {
		return nil
	}
	c := s.content
	c.mu.Lock()
	defer c.mu.Unlock()
	v := saved{Rank: s.rank.ID(), Model: c.model, At: f.mark, Shapes: c.shapes}
	return v.take(w, c.index, c.holders)
}

// take copies the content of the holders.
func (v saved) take(w *radix.SnapshotWriter, x *radix.Index, holders map[int]radix.Worker) error {
	for group, id := range holders {
		v.Group, v.Partial = group, x.Partial(id)
		meta, err := json.Marshal(v)
		if err == nil {
			err = w.Take(id, v.Rank, meta)
		}
		if err != nil {
			return fmt.Errorf("cannot save rank %s: %w", v.Rank, err)
		}
	}
	return nil
}
