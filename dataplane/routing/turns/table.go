package turns

import (
	"math/bits"
	"sync/atomic"
)

// Table knows the sessions of all models. Make it with [New].
type Table struct {
	marks    marks
	branches branches
	seed     uint64
	count    atomic.Uint64 // of sessions and branches that began
}

// New returns an empty table. Hashes are keyed by the seed: a client that knows it can have others'
// sessions forgotten.
func New(seed uint64) *Table {
	return &Table{marks: newMarks(markSlots), branches: newBranches(), seed: scatter(seed)}
}

// Kind says how a prompt continues a session.
type Kind uint8

// The kinds; see the package's documentation.
const (
	None Kind = iota // the prompt has no unit and no name: nothing is known of it
	First
	Next
	Again
	Rewritten
	Branch
	Kinds // their number
)

// String names the kind as /explain and the access log show it.
func (k Kind) String() string {
	return [...]string{"none", "first", "next", "again", "rewritten", "branch"}[k]
}

// Turn is a prompt's place in its session. The zero Turn is of no session, and [Table.Begin] and
// [Table.End] ignore it.
type Turn struct {
	Kind    Kind
	Named   bool   // the client's name told the session, and not the prefix
	ID      ID     // of the branch; 0 until Begin for a new one
	Session uint64 // 0 until Begin for a new one without a name
	Shared  int    // leading units that other branches have too
	Turns   int    // of the branch before this one
	Rank    uint32 // of the request, for Stats: the caller sets it before Begin
	Exact   bool   // the branch's last request was routed by events; before Begin, this one's
	Pause   int64  // usual time from an answer to the branch's next turn; 0: unknown
	Paused  int64  // time since the last answer, after Begin of a Next or Rewritten; else 0

	name   uint64
	end    uint32 // units of the prompt
	depth  uint32 // of the deepest mark
	from   ID     // that a new branch leaves
	parent ID     // that it may prove to be independent of
	root   uint32
}

// Units returns the leading units that the branch's last prompt had, 0 where only a name tells the
// branch.
func (f *Turn) Units() int { return int(f.depth) }

// AppendPrefixes appends, for each unit of a prompt, the hash of all units up to it. keys are the
// hashes of the single units.
func AppendPrefixes[K ~uint32 | ~uint64](dst []uint64, t *Table, keys []K) []uint64 {
	h := t.seed
	for _, k := range keys {
		h = extend(h, uint64(k))
		dst = append(dst, h)
	}
	return dst
}

// AppendBlockPrefixes is AppendPrefixes for units of several blocks. Prompts of different domains
// have no prefix in common. Blocks behind the last whole unit are left out.
func AppendBlockPrefixes[K ~uint64](dst []uint64, t *Table, domain uint64, blocks []K, perUnit int) []uint64 {
	h := extend(t.seed, domain)
	for ; len(blocks) >= perUnit; blocks = blocks[perUnit:] {
		for _, k := range blocks[:perUnit] {
			h = extend(h, uint64(k))
		}
		dst = append(dst, h)
	}
	return dst
}

// extend returns the hash of a prefix with one more key.
func extend(h, key uint64) uint64 {
	hi, lo := bits.Mul64(h^key, 0x9e3779b97f4a7c15|1)
	return hi ^ lo ^ key
}

// scatter spreads a number over 64 bits (splitmix64's finalizer).
func scatter(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// nameHash is the place of a session's latest branch among the marks.
func (t *Table) nameHash(session uint64) uint64 { return scatter(session ^ t.seed) }

// Name gives the branch of a Turn another name: that of its answer, to which the next turn refers.
func (t *Table) Name(f *Turn, name uint64) {
	if f.ID != 0 && name != 0 {
		t.marks.put(t.nameHash(name), markOf(f.ID, uint32(f.Turns)+1), t.branches.ended)
	}
}

// fresh returns a number that no session has.
func (t *Table) fresh() uint64 { return max(scatter(t.seed+t.count.Add(1)<<1), 1) }

// Leave forgets the rank of the last request of branches: another rank may have its number next.
func (t *Table) Leave(rank uint32) {
	t.branches.each(func(b *branch) {
		if b.rank == rank {
			b.rank = 0
		}
	})
}

// Stats counts the live part of a table.
type Stats struct {
	Sessions int // with a request in flight or since the given time
	Branches int // of these sessions, the main ones included
	Running  int // branches with a request in flight
	Named    int // sessions that their clients name
	// ByRank has the number of Branches by the rank of their last request.
	ByRank map[uint32]int
}

// Stats counts the sessions with requests since a time. It locks a branch at a time.
func (t *Table) Stats(since int64) (s Stats) {
	s.ByRank = make(map[uint32]int)
	t.branches.each(func(b *branch) {
		if b.turns == 0 || b.running == 0 && b.last < since {
			return
		}
		s.Branches++
		s.ByRank[b.rank]++
		if b.running > 0 {
			s.Running++
		}
		if b.main {
			s.Sessions++
			if b.named {
				s.Named++
			}
		}
	})
	return s
}
