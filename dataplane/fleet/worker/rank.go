package worker

import (
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"weak"
)

// Counters count a rank's requests and answers, for /status and /metrics.
type Counters struct {
	Requests     atomic.Uint64 // answers that began
	Errors       atomic.Uint64 // attempts that ended without an answer
	PromptTokens atomic.Uint64 // of answers that reported usage
	CachedTokens atomic.Uint64 // of PromptTokens, served from the cache
	// Stored counts the prompt tokens in whole pages that the rank must have added to its cache,
	// and so must have published events for.
	Stored atomic.Uint64
}

// Rank is one data-parallel replica of a worker: a KV cache and a queue.
type Rank struct {
	Worker *Worker
	DPRank int // 0-based rank, meaningful when the worker has more than one

	id        string                   // URL, with #rank when there are several; fixed
	hash      uint64                   // of id, never 0; fixed
	number    uint32                   // see Number; fixed
	indexIDs  atomic.Pointer[[]uint32] // ids of the rank's KV groups in the index
	exact     atomic.Bool              // its events are followed and nothing is missing
	doubt     atomic.Uint32            // see Doubt
	fullSpeed atomic.Uint64            // float64 bits; see Full
	look      Look                     // of the monitor's last probe that was not answered

	ExtraKeys ExtraKeys
	Load      Load
	Count     Counters
	Trust     Trust
	Events    EventCheck
}

// ID names the rank to people: the worker's URL, with "#rank" when the worker
// has several.
func (r *Rank) ID() string { return r.id }

// Labels name the rank in metrics.
func (r *Rank) Labels() (worker, rank string) { return r.Worker.URL, strconv.Itoa(r.DPRank) }

// IDHash is a number that stands for ID, never 0, and the same in every router.
func (r *Rank) IDHash() uint64 { return r.hash }

// Number is the rank's number in this process, from 1 without large gaps. No other rank has it
// while anything refers to this one: a request in flight may use the number of a rank that has
// left. Tables that keep bare numbers forget a number in Observer.Up, before its next rank is used.
func (r *Rank) Number() uint32 { return r.number }

// numbers issues the numbers of ranks.
type numbers struct {
	mu    sync.Mutex
	ranks []weak.Pointer[Rank] // by number less 1, nil where the rank is gone; guarded by mu
}

// issue gives a rank the smallest number that no other has.
func (n *numbers) issue(rank *Rank) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := slices.IndexFunc(n.ranks, func(r weak.Pointer[Rank]) bool { return r.Value() == nil })
	if at < 0 {
		at, n.ranks = len(n.ranks), append(n.ranks, weak.Pointer[Rank]{})
	}
	n.ranks[at], rank.number = weak.Make(rank), uint32(at+1)
}

// hashID is FNV-1a.
func hashID(id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return max(h.Sum64(), 1)
}

// SetIndexIDs publishes the index ids that stand for the rank's cache: one, or
// one for each KV group of a hybrid model.
func (r *Rank) SetIndexIDs(ids []uint32) { r.indexIDs.Store(&ids) }

// IndexIDs returns the ids of the last SetIndexIDs. Only blocks that all of them hold are worth
// anything.
func (r *Rank) IndexIDs() []uint32 {
	if p := r.indexIDs.Load(); p != nil {
		return *p
	}
	return nil
}

// SetExact publishes whether the index equals the rank's cache.
func (r *Rank) SetExact(on bool) {
	if r.exact.Swap(on) != on {
		r.Trust.forgetOutcomes()
	}
}

// Exact returns the value of the last SetExact, and false while there is a doubt or the events are
// set aside.
func (r *Rank) Exact() bool {
	return r.exact.Load() && r.doubt.Load() == 0 && r.Events.Fault() == NoEventFault
}

// Doubt is the knowledge of a rank that must not be credited until it is proved again.
type Doubt uint32

const (
	// NoDoubt credits all knowledge.
	NoDoubt Doubt = iota
	// DoubtIndex is for events that are known to be missing or not yet asked for:
	// the index may name blocks that are gone.
	DoubtIndex
	// DoubtProcess is for a connection that was lost: the process may be another
	// one with an empty cache, so earlier answers prove nothing either.
	DoubtProcess
)

// SetDoubt publishes a doubt, or its end.
func (r *Rank) SetDoubt(d Doubt) { r.doubt.Store(uint32(d)) }

// Doubt returns the value of the last SetDoubt.
func (r *Rank) Doubt() Doubt { return Doubt(r.doubt.Load()) }

// newRanks builds the ranks of a worker.
func newRanks(w *Worker, n int, numbers *numbers) []*Rank {
	ranks, stepped := make([]*Rank, n), make(chan struct{}, 1)
	for i := range ranks {
		id := w.URL
		if n > 1 {
			id += "#" + strconv.Itoa(i)
		}
		ranks[i] = &Rank{Worker: w, DPRank: i, id: id, hash: hashID(id)}
		ranks[i].Load.stepped = stepped
		numbers.issue(ranks[i])
	}
	return ranks
}

// FullSpeed returns the prompt tokens a second that the rank computed before its worker lost a
// part of its speed; 0 when it has lost none, or when that is unknown.
func (r *Rank) FullSpeed() float64 { return math.Float64frombits(r.fullSpeed.Load()) }
