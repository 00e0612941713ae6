package ingest

import (
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/radix"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

// content is a rank's blocks in the index. Its events are applied under Stream.turn.
type content struct {
	index   *radix.Index
	rank    *worker.Rank
	stats   *Stats
	model   string
	log     *slog.Logger
	full    *sync.Once         // of the manager: that the index is full is logged once
	publish func()             // of the manager: holders or shapes have changed
	onClear func(*worker.Rank) // may be nil

	batch   kvevent.Batch
	blocks  []radix.Hash
	orphans bool // an event named an unknown parent since the last resync
	strange bool // of the batch: a store was of one shape or group too many
	extra   extraKeyBlocks
	tiers   bool // some blocks were in host memory or storage

	mu      sync.Mutex
	holders map[int]radix.Worker // by KV group; guarded by mu, written under turn
	shapes  []Shape              // guarded by mu, written under turn
}

// poolContent returns the content of the rank's KV pool behind the last batch; ok is false where
// the index does not tell it: blocks of several groups, of pairs of tokens or in other tiers, or
// kept out by the index's bound.
func (c *content) poolContent() (r worker.PoolContent, ok bool) {
	if c.tiers || len(c.holders) != 1 || len(c.shapes) != 1 || c.shapes[0].Bigram {
		return r, false
	}
	removed := 0
	for i := range c.batch.Events {
		switch ev := &c.batch.Events[i]; ev.Kind {
		case kvevent.Removed:
			removed += len(ev.Hashes)
		case kvevent.Cleared:
			return r, false
		}
	}
	for _, id := range c.holders {
		if c.index.Partial(id) {
			return r, false
		}
		r.Tokens = int64(c.index.Blocks(id)+removed) * int64(c.shapes[0].BlockSize)
	}
	r.Evicting = removed > 0
	return r, true
}

// apply applies the events of one payload. An unreadable payload is counted and skipped: a resync
// would meet the same bytes again.
func (c *content) apply(payload []byte, live bool, now time.Time) (ok bool) {
	b := &c.batch
	if err := b.Decode(payload); err != nil {
		c.stats.Malformed.Add(1)
		if live {
			c.rank.ReadBatch(now, false)
		}
		return false
	}
	c.stats.UnknownEvents.Add(uint64(b.UnknownEvents))
	c.stats.UnknownFields.Add(uint64(b.UnknownFields))
	c.stats.Malformed.Add(uint64(b.BadEvents))
	c.strange = false
	for i := range b.Events {
		c.event(&b.Events[i], live)
	}
	if live { // a replay brings the past again and again
		c.rank.ReadBatch(now, b.Readable() && !c.strange)
	}
	return true
}

func (c *content) event(ev *kvevent.Event, live bool) {
	c.tiers = c.tiers || ev.Kind != kvevent.Cleared && storeTier(ev.Medium) != radix.TierGPU
	switch ev.Kind {
	case kvevent.Stored:
		c.store(ev, live)
	case kvevent.Removed:
		if id, ok := c.holders[ev.Group]; ok {
			unknown := uint64(c.remove(id, removalTier(ev.Medium), ev.Hashes))
			if live && len(c.shapes) > 0 {
				c.rank.Events.RemovedPages((len(ev.Hashes) - int(unknown)) * c.shapes[0].BlockSize)
			}
			if c.index.Partial(id) {
				c.stats.EvictedRemovals.Add(unknown)
			} else {
				c.stats.UnknownRemovals.Add(unknown)
			}
		} else {
			c.stats.UnknownRemovals.Add(uint64(len(ev.Hashes)))
		}
	case kvevent.Cleared:
		c.clear()
		// A replay tells of the past, and events that are set aside of nothing.
		if live && c.onClear != nil && c.rank.Events.Fault() == worker.NoEventFault {
			c.onClear(c.rank)
		}
	}
}

// remove takes blocks from a tier, and returns the number of unknown ones. Blocks that leave the
// GPU and were only ever stored elsewhere contradict that: in doubt they are gone.
func (c *content) remove(id radix.Worker, tier radix.Tier, blocks []uint64) (unknown int) {
	unknown = c.index.Remove(id, tier, blocks)
	if unknown == len(blocks) && c.tiers && tier == radix.TierGPU {
		unknown = c.index.Remove(id, radix.TierUnknown, blocks)
	}
	return unknown
}

func (c *content) store(ev *kvevent.Event, live bool) {
	width := ev.BlockSize
	if ev.Bigram {
		width *= 2
	}
	if !ev.Fits() {
		c.stats.Malformed.Add(1)
		return
	}
	id, ok := c.holder(ev.Group)
	if ok = ok && c.addShape(Shape{Model: c.model, BlockSize: ev.BlockSize, Bigram: ev.Bigram}); !ok {
		c.strange = true
		c.stats.Malformed.Add(1)
		return
	}
	x := c.index
	c.blocks = x.AppendHashes(c.blocks[:0], ev.Tokens, width)
	for i, extra := range ev.ExtraKeys {
		// An image, a salt or an adapter makes another block of equal tokens: a plain prompt must
		// never match it.
		if extra != nil && i < len(c.blocks) {
			c.blocks[i] = x.Mix(c.blocks[i], extra)
		}
	}
	if ev.ExtraKey != nil {
		for i := range c.blocks {
			c.blocks[i] = x.Mix(c.blocks[i], ev.ExtraKey)
		}
	}
	key := radix.DomainKey{
		Model: c.model, BlockSize: ev.BlockSize, LoRA: loraName(ev), Salt: string(ev.CacheSalt), Bigram: ev.Bigram,
	}
	if c.extra.claim(ev, c.blocks, &c.rank.ExtraKeys, live && storeTier(ev.Medium) == radix.TierGPU) {
		key.Salt = extraKeySalt + key.Salt
	}
	store := radix.Store{
		Worker: id, Domain: x.Domain(key),
		Tier: storeTier(ev.Medium), Parent: ev.Parent, HasParent: ev.HasParent, Engine: ev.Hashes, Blocks: c.blocks,
	}
	err := x.Store(store)
	if errors.Is(err, radix.ErrUnknownDomain) { // a thousand domains without blocks came in between
		store.Domain = x.Domain(key)
		err = x.Store(store)
	}
	switch {
	case err == nil:
	case errors.Is(err, radix.ErrBudget):
		c.full.Do(func() {
			c.log.Warn("the index is full and evicts blocks: routing knows less than the workers hold; raise --index-max-bytes",
				"max_bytes", x.Stats().MaxBytes)
		})
		c.stats.BeyondBudget.Add(1)
	case errors.Is(err, radix.ErrUnknownParent):
		c.stats.UnknownParents.Add(1)
		c.orphans = true
	default:
		c.stats.Malformed.Add(1)
	}
}

// A prompt is hashed once for each shape and its overlap looked up in each group, so that a rank
// may have a few: engines have one of each, and hybrid models two or three shapes in some groups.
const (
	maxShapes = 4
	maxGroups = 64
)

// holder returns the index id of a KV group, made at first sight; false: the rank has too many.
func (c *content) holder(group int) (radix.Worker, bool) {
	if id, ok := c.holders[group]; ok || len(c.holders) >= maxGroups {
		return id, ok
	}
	id := c.index.AddWorker()
	c.mu.Lock()
	c.holders[group] = id
	c.mu.Unlock()
	c.publish()
	return id, true
}

// addShape makes a shape known to the request path; false: the rank has too many.
func (c *content) addShape(shape Shape) bool {
	if slices.Contains(c.shapes, shape) {
		return true
	}
	if len(c.shapes) >= maxShapes {
		return false
	}
	c.mu.Lock()
	c.shapes = append(c.shapes, shape)
	c.mu.Unlock()
	c.publish()
	return true
}

// restore takes over a rank of a snapshot.
func (c *content) restore(holders map[int]radix.Worker, shapes []Shape) {
	c.holders = holders
	for _, shape := range shapes {
		if !slices.Contains(c.shapes, shape) {
			c.shapes = append(c.shapes, shape)
		}
	}
}

// clear drops the rank's blocks and keeps its index ids.
func (c *content) clear() {
	for _, id := range c.holders {
		c.index.Clear(id)
	}
}

// leave takes the rank out of the index. Requests forget its index ids first: another rank gets
// them next, and would be credited to this one.
func (c *content) leave() {
	c.mu.Lock()
	ids := c.holders
	c.holders = make(map[int]radix.Worker)
	c.mu.Unlock()
	c.publish()
	c.rank.SetExact(false)
	c.rank.SetDoubt(worker.NoDoubt)
	c.rank.SetIndexIDs(nil) // publish leaves out a stream that is no longer in the set
	for _, id := range ids {
		c.index.RemoveWorker(id)
	}
}

// view returns the rank's index ids and shapes.
func (c *content) view() (holders []radix.Worker, shapes []Shape) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range c.holders {
		holders = append(holders, id)
	}
	return holders, slices.Clone(c.shapes)
}

// loraName names the adapter of a stored block. Releases before 0.5.22 send an id that no request
// carries: it keeps such blocks apart and matches nothing.
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
