package ingest

import (
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/radix"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

const (
	// extraKeySalt begins the domain of blocks of prompts with an extra_key: the index holds them,
	// and no prompt matches them.
	extraKeySalt = "\x00extra_key\x00"
	// maxExtraKeyBlocks bounds, but for one event, the blocks that are remembered for replays.
	maxExtraKeyBlocks = 1 << 16
)

// extraKeyBlocks remembers the blocks of a rank that belong to prompts with an extra_key. The zero
// value has none.
type extraKeyBlocks struct {
	blocks map[radix.Hash]struct{}
	engine map[uint64]struct{} // their engine hashes
}

// claim reports whether the stored blocks belong to a prompt with an extra_key. first is set for a
// live store that is no copy to another tier: in other stores all blocks that ever belonged to such
// a prompt count.
func (x *extraKeyBlocks) claim(ev *kvevent.Event, blocks []radix.Hash, known *worker.ExtraKeys, first bool) (claimed bool) {
	expected := known.Any()
	if !expected && (first || len(x.blocks) == 0) {
		return false
	}
	for _, b := range blocks {
		_, was := x.blocks[b]
		claimed = expected && known.Take(uint64(b)) || !first && was || claimed
	}
	// SGLang's hashes do not tell a block behind such a parent from one of a plain prompt. A live
	// store goes to the plain prompt where both have the parent.
	if _, was := x.engine[ev.Parent]; was && ev.HasParent && !first {
		claimed = true
	}
	if !claimed {
		return false
	}
	if x.blocks == nil || len(x.blocks) > maxExtraKeyBlocks {
		x.blocks, x.engine = make(map[radix.Hash]struct{}), make(map[uint64]struct{})
	}
	for _, name := range ev.Hashes {
		x.engine[name] = struct{}{}
	}
	for _, b := range blocks {
		x.blocks[b] = struct{}{}
	}
	return true
}
