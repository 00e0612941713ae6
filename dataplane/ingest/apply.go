package ingest

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/radix"
	"github.com/warmpath/warmpath/zmq"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

// apply takes one message's events into the index. A payload that cannot be
// read is counted and skipped: starting over would meet the same bytes again.
func (s *Stream) apply(msg zmq.Message, live bool) {
	if s.empty {
		s.first, s.empty = msg.Seq, false
	}
	s.next, s.joined, s.last = msg.Seq+1, true, s.digest(msg)
	s.mark = position{s.next, s.last, s.complete}
	s.Stats.Batches.Add(1)
	s.Stats.Sequence.Store(msg.Seq)
	if err := s.batch.Decode(msg.Payload); err != nil {
		s.Stats.Malformed.Add(1)
		return
	}
	s.Stats.UnknownEvents.Add(uint64(s.batch.UnknownEvents))
	s.Stats.UnknownFields.Add(uint64(s.batch.UnknownFields))
	s.Stats.Malformed.Add(uint64(s.batch.BadEvents))
	for i := range s.batch.Events {
		s.event(&s.batch.Events[i], live)
	}
	now := time.Now()
	s.Stats.last.Store(now.UnixNano())
	s.rank.Trust.Told(now)
	if live && s.batch.Time > 0 { // a replayed batch is as old as it is
		s.Stats.delayed(now, s.batch.Time)
	}
	s.batch.Trim()
}

func (s *Stream) event(ev *kvevent.Event, live bool) {
	switch ev.Kind {
	case kvevent.Stored:
		s.stored(ev, live)
	case kvevent.Removed:
		if id, ok := s.holders[ev.Group]; ok {
			unknown := uint64(s.m.index.Remove(id, removalTier(ev.Medium), ev.Hashes))
			if s.m.index.Partial(id) {
				s.Stats.EvictedRemovals.Add(unknown)
			} else {
				s.Stats.UnknownRemovals.Add(unknown)
			}
		} else {
			s.Stats.UnknownRemovals.Add(uint64(len(ev.Hashes)))
		}
	case kvevent.Cleared:
		s.clear()
	}
}

func (s *Stream) stored(ev *kvevent.Event, live bool) {
	width := ev.BlockSize
	if ev.Bigram {
		width *= 2
	}
	if width <= 0 || len(ev.Tokens) != width*len(ev.Hashes) || len(ev.Hashes) == 0 {
		s.Stats.Malformed.Add(1)
		return
	}
	s.see(Shape{Model: s.model, BlockSize: ev.BlockSize, Bigram: ev.Bigram})
	x := s.m.index
	s.blocks = x.AppendHashes(s.blocks[:0], ev.Tokens, width)
	for i, extra := range ev.ExtraKeys {
		// An image, a salt or an adapter makes the block another one, though its
		// tokens are the same: a plain prompt must never match it.
		if extra != nil && i < len(s.blocks) {
			s.blocks[i] = x.Mix(s.blocks[i], extra)
		}
	}
	if ev.ExtraKey != nil {
		for i := range s.blocks {
			s.blocks[i] = x.Mix(s.blocks[i], ev.ExtraKey)
		}
	}
	key := radix.DomainKey{
		Model: s.model, BlockSize: ev.BlockSize, LoRA: loraName(ev), Salt: string(ev.CacheSalt), Bigram: ev.Bigram,
	}
	if s.isKeyed(ev, live && storeTier(ev.Medium) == radix.TierGPU) {
		key.Salt = keyedSalt + key.Salt
	}
	store := radix.Store{
		Worker: s.holder(ev.Group), Domain: x.Domain(key),
		Tier: storeTier(ev.Medium), Parent: ev.Parent, HasParent: ev.HasParent, Engine: ev.Hashes, Blocks: s.blocks,
	}
	err := x.Store(store)
	if errors.Is(err, radix.ErrUnknownDomain) { // a thousand others without blocks came in between
		store.Domain = x.Domain(key)
		err = x.Store(store)
	}
	switch {
	case err == nil:
	case errors.Is(err, radix.ErrBudget):
		s.m.full.Do(func() {
			s.log.Warn("the index is full: what is wanted least is evicted; routing knows less than the workers hold; raise --index-max-bytes",
				"max_bytes", x.Stats().MaxBytes)
		})
		s.Stats.BeyondBudget.Add(1)
	case errors.Is(err, radix.ErrUnknownParent):
		s.Stats.UnknownParents.Add(1)
		s.orphans = true
	default:
		s.Stats.Malformed.Add(1)
	}
}

// holder returns the index holder of a KV group, made at first sight.
func (s *Stream) holder(group int) radix.Worker {
	if id, ok := s.holders[group]; ok {
		return id
	}
	id := s.m.index.AddWorker()
	s.mu.Lock()
	s.holders[group] = id
	s.mu.Unlock()
	s.m.publish()
	return id
}

// see makes a shape known to the request path.
func (s *Stream) see(shape Shape) {
	if slices.Contains(s.shapes, shape) {
		return
	}
	s.mu.Lock()
	s.shapes = append(s.shapes, shape)
	s.mu.Unlock()
	s.m.publish()
}

// clear drops what the rank holds and keeps its holders.
func (s *Stream) clear() {
	for _, id := range s.holders {
		s.m.index.Clear(id)
	}
}

// forget takes the rank out of the index. Its holders go first: ids are used
// again, and a rank that kept its old ones would be credited with another
// one's blocks.
func (s *Stream) forget() {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mark = position{}
	s.mu.Lock()
	ids := s.holders
	s.holders = make(map[int]radix.Worker)
	s.mu.Unlock()
	s.m.publish()
	s.rank.SetExact(false)
	s.rank.SetDoubt(worker.NoDoubt)
	s.rank.SetHolders(nil) // publish leaves out a stream that is no longer in the set
	for _, id := range ids {
		s.m.index.RemoveWorker(id)
	}
}

// loraName names the adapter of a stored block. Releases before 0.5.22 send an
// id that no request carries: it keeps such blocks apart and matches nothing.
func loraName(ev *kvevent.Event) string {
	switch {
	case len(ev.LoRAName) > 0:
		return string(ev.LoRAName)
	case ev.HasLoRAID:
		return "#" + strconv.FormatInt(ev.LoRAID, 10)
	default:
		return ""
	}
}

func storeTier(m kvevent.Medium) radix.Tier {
	switch m {
	case kvevent.MediumCPU:
		return radix.TierCPU
	case kvevent.MediumStorage, kvevent.MediumOther:
		return radix.TierStorage
	default:
		return radix.TierGPU
	}
}

func removalTier(m kvevent.Medium) radix.Tier {
	if m == kvevent.MediumNone {
		return radix.TierUnknown
	}
	return storeTier(m)
}
