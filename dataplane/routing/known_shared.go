package routing

import (
	"time"

	"github.com/warmpath/warmpath/dataplane/routing/turns"
)

// The leader of several routers chooses for all of them, so it must know the sessions of all. It is
// told of every prompt by fingerprints (SharedPredictions), and finds sessions by them as it finds
// its own by finer prefixes. So a session that comes to another router is still the same one, and
// costs no message of its own. Fingerprints are up to an eighth of the prompt apart: sessions with
// less of their own than that are one.

// appendShared appends the prefixes of a prompt by its fingerprints. The last one is of the whole
// prompt, which no other prompt continues.
func (k *KnownSessions) appendShared(dst []uint64, fingerprints []uint32) []uint64 {
	return turns.AppendPrefixes(dst, k.all.table, fingerprints[:max(len(fingerprints)-1, 0)])
}

// priceShared is price for the leader.
func (k *KnownSessions) priceShared(s *Scratch, fingerprints []uint32) {
	if k == nil {
		return
	}
	var room [MaxFingerprints]uint64
	f := k.all.table.Find(k.appendShared(room[:0], fingerprints), 0, false)
	k.all.price(s, f.ID)
}

// beginShared notes a prompt of any router that is sent to the rank with that hash.
func (k *KnownSessions) beginShared(now time.Time, rank uint64, tokens int, fingerprints []uint32) (f turns.Turn) {
	if k == nil {
		return f
	}
	var room [MaxFingerprints]uint64
	prefixes := k.appendShared(room[:0], fingerprints)
	f = k.all.table.Find(prefixes, 0, false)
	f.Rank = k.ranks.of(rank)
	k.all.table.Begin(&f, prefixes, k.since(now))
	if f.Rank != 0 {
		held := 0
		if f.Shared > 0 {
			held = fingerprintAt[f.Shared-1]
		}
		k.all.pages.Sent(k.seconds(now), uint64(f.ID), int(f.Rank-1), float64(tokens), float64(held))
	}
	return f
}

// endShared notes that a prompt of beginShared is computed or given up.
func (k *KnownSessions) endShared(now time.Time, f *turns.Turn) {
	if k == nil || f.ID == 0 {
		return
	}
	k.all.table.End(f, k.since(now))
	k.all.pages.Ended(k.seconds(now), uint64(f.ID), 0)
	f.ID = 0
}

// leads reports whether this router chooses for others too.
func leads(o Peers) bool { return o != nil && o.Present() && !o.Active() }
