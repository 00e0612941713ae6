package queue

import "sort"

// recentBranches bounds the branches remembered of a rank: a large batch, so that they are the
// requests that run there or have just ended.
const recentBranches = 64

// recent are the branches of the requests that one rank was sent last.
type recent struct {
	branches []Branch // a ring
	next     int
	counts   map[uint64]int // by hash: number of branches that have it
}

// depth returns the number of leading hashes of b that a recent branch has. A branch with a
// hash has all hashes before it.
func (r *recent) depth(b Branch) int {
	return sort.Search(len(b), func(n int) bool { return r.counts[b[n]] == 0 })
}

// add remembers b in place of the oldest branch. claims counts the ranks that have a hash.
func (r *recent) add(b Branch, claims map[uint64]int) {
	for _, h := range b { // before the oldest one goes, so that no shared hash is given up between
		if r.counts[h]++; r.counts[h] == 1 {
			claims[h]++
		}
	}
	if len(r.branches) < recentBranches {
		r.branches = append(r.branches, b)
		return
	}
	r.remove(r.branches[r.next], claims)
	r.branches[r.next] = b
	r.next = (r.next + 1) % recentBranches
}

func (r *recent) remove(b Branch, claims map[uint64]int) {
	for _, h := range b {
		if r.counts[h]--; r.counts[h] > 0 {
			continue
		}
		delete(r.counts, h)
		if claims[h]--; claims[h] == 0 {
			delete(claims, h)
		}
	}
}
