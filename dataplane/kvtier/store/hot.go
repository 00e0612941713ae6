package store

import "github.com/warmpath/warmpath/dataplane/kvtier/proto"

// maxHottest bounds the list of hot pages: 1 M of them would take 64 MiB, and a message holds 16.
const maxHottest = 200_000

// hottest lists pages of a namespace that were used more than once, the latest used first, with what they hang on.
func (t *Tier) hottest(ns uint32, limit int) []followed {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.index
	var pages []followed
	if x.spaces[ns] == nil {
		return nil
	}
	for q := queues - 1; q >= 0; q-- {
		for e := x.classes[x.spaces[ns].class].queue[q].head; e != none && len(pages) < limit; e = x.entries[e].next {
			if x.entries[e].key.ns != ns {
				continue
			}
			var parent proto.Hash
			if p := x.parentOf(e); p != none {
				parent = x.entries[p].key.hash
			}
			pages = append(pages, followed{parent, x.entries[e].key.hash})
		}
	}
	return pages
}
