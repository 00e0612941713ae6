package store

import (
	"bufio"
	"container/list"
	"encoding/binary"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// traceFile returns the path of a trace in Mooncake's format; the repository has the beginning of
// one.
func traceFile() string {
	if path := os.Getenv("WARMPATH_TRACE"); path != "" {
		return path
	}
	return "../../../bench/replay/testdata/mooncake_conversation_200.jsonl"
}

// readTrace returns the blocks of each prompt.
func readTrace(t testing.TB) [][]proto.Hash {
	t.Helper()
	f, err := os.Open(traceFile())
	require.NoError(t, err)
	defer f.Close()
	var prompts [][]proto.Hash
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var line struct {
			IDs []uint64 `json:"hash_ids"`
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &line))
		blocks := make([]proto.Hash, len(line.IDs))
		for i, id := range line.IDs {
			binary.LittleEndian.PutUint64(blocks[i][:], id+1)
		}
		prompts = append(prompts, blocks)
	}
	return prompts
}

// play sends prompts through an index as engines without a cache of their own do, and returns the
// share of pages found. Batches are SGLang's, of 128 pages at most.
func play(t testing.TB, x *index, prompts [][]proto.Hash) float64 {
	t.Helper()
	ns, err := x.spaces.get("trace", 1024)
	require.NoError(t, err)
	found, asked := 0, 0
	for _, p := range prompts {
		n := x.prefix(ns, p)
		found, asked = found+n, asked+len(p)
		for at := n; at < len(p); at += 128 {
			batch := p[at:min(at+128, len(p))]
			var parent *proto.Hash
			if at > 0 {
				parent = &p[at-1]
			}
			es := make([]int32, len(batch))
			for i, h := range batch {
				es[i], _ = x.reserve(ns, h, false)
			}
			x.publish(ns, batch, es, parent)
		}
	}
	return float64(found) / float64(asked)
}

// playLRU returns the share of pages that plain LRU finds.
func playLRU(room int, prompts [][]proto.Hash) float64 {
	order, at := list.New(), map[proto.Hash]*list.Element{}
	found, asked := 0, 0
	for _, p := range prompts {
		asked += len(p)
		for n := 0; n < len(p) && at[p[n]] != nil; n++ {
			found++
		}
		for _, h := range p {
			if e := at[h]; e != nil {
				order.MoveToFront(e)
				continue
			}
			if order.Len() == room {
				delete(at, order.Remove(order.Back()).(proto.Hash))
			}
			at[h] = order.PushFront(h)
		}
	}
	return float64(found) / float64(asked)
}

// TestPolicyOnTrace measures the eviction policy beside plain LRU: with WARMPATH_TRACE set, on a
// whole trace.
func TestPolicyOnTrace(t *testing.T) {
	prompts := readTrace(t)
	unbounded := play(t, newIndex(4096, minSlab), prompts)
	for _, pages := range []int{1 << 10, 1 << 12, 1 << 14, 1 << 16} {
		lru := playLRU(pages, prompts)
		x := newIndex(pages*1024/minSlab, minSlab)
		ours := play(t, x, prompts)
		t.Logf("%6d pages: lru %.4f, ours %.4f, unbounded %.4f; evicted %d, before a follower %d",
			pages, lru, ours, unbounded, x.evictor.stats.evicted, x.evictor.stats.orphaned)
		if ours < lru*0.99 {
			t.Errorf("%d pages: our order finds %.4f of all pages, plain LRU %.4f", pages, ours, lru)
		}
	}
}
