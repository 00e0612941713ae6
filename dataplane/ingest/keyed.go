package ingest

import (
	"github.com/warmpath/warmpath/radix"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

const (
	// keyedSalt begins the domain of blocks whose prompts have an extra_key: they
	// are held, and no prompt matches them.
	keyedSalt = "\x00extra_key\x00"
	// maxHidden bounds, but for one event, how many of them are remembered for replays.
	maxHidden = 1 << 16
)

// isKeyed reports whether the blocks of the store at hand, s.blocks, belong to a
// prompt with an extra_key. first says that the store is live and not a copy to
// another tier: of others, all blocks that ever belonged to one are taken to.
func (s *Stream) isKeyed(ev *kvevent.Event, first bool) (keyed bool) {
	expected := s.rank.Keyed.Any()
	if !expected && (first || len(s.hidden) == 0) {
		return false
	}
	for _, b := range s.blocks {
		_, was := s.hidden[b]
		keyed = expected && s.rank.Keyed.Take(uint64(b)) || !first && was || keyed
	}
	// A live store behind such a block goes where its parent is, and is a plain
	// prompt's where both have one: SGLang's names do not tell.
	if _, was := s.hiddenNames[ev.Parent]; was && ev.HasParent && !first {
		keyed = true
	}
	if !keyed {
		return false
	}
	if s.hidden == nil || len(s.hidden) > maxHidden {
		s.hidden, s.hiddenNames = make(map[radix.Hash]struct{}), make(map[uint64]struct{})
	}
	for _, name := range ev.Hashes {
		s.hiddenNames[name] = struct{}{}
	}
	for _, b := range s.blocks {
		s.hidden[b] = struct{}{}
	}
	return true
}
