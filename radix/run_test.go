package radix

import (
	"testing"
	"unsafe"

	"github.com/warmpath/warmpath/radix/internal/keyed"
)

func TestStripesShareNoCacheLine(t *testing.T) {
	if n := unsafe.Sizeof(childStripe{}); n%cacheLine != 0 {
		t.Errorf("a stripe has %d bytes, want a multiple of %d", n, cacheLine)
	}
	if n := unsafe.Sizeof(runView{}); n != cacheLine {
		t.Errorf("the header of a face has %d bytes, want %d", n, cacheLine)
	}
	if n := unsafe.Sizeof(blockStripe{}); n%cacheLine != 0 {
		t.Errorf("a stripe of places has %d bytes, want a multiple of %d", n, cacheLine)
	}
}

func TestEntryIsSmall(t *testing.T) {
	// 24 bytes at a load of 3/8 to 3/4, where a worker's engine hashes are not the listed ones.
	if n := unsafe.Sizeof(entry{}); n != 24 {
		t.Errorf("an entry has %d bytes, want 24", n)
	}
}

func TestCoveragePacking(t *testing.T) {
	tests := []struct {
		worker       Worker
		anyTier, gpu uint32
	}{{0, 0, 0}, {1, 2, 1}, {maxWorkers - 1, maxRun, maxRun}, {5, maxRun, 0}}
	for _, tt := range tests {
		v := packCoverage(tt.worker, tt.anyTier, tt.gpu)
		if coverageWorker(v) != tt.worker || coveredAny(v) != int32(tt.anyTier) || coveredGPU(v) != int32(tt.gpu) {
			t.Errorf("packLead(%+v) reads as %d %d/%d",
				tt, coverageWorker(v), coveredAny(v), coveredGPU(v))
		}
	}
}

func TestCommonPrefix(t *testing.T) {
	for n := range 100 {
		a := make([]Hash, n)
		for i := range a {
			a[i] = Hash(i)
		}
		for differ := range n + 1 {
			b := append([]Hash(nil), a...)
			if differ < n {
				b[differ]++
			}
			if got := keyed.CommonPrefix(a, append(b, 7)); got != differ {
				t.Errorf("agree of %d blocks that differ at %d = %d", n, differ, got)
			}
		}
	}
}

func TestEntryTable(t *testing.T) {
	var table entryTable
	const n = 5000
	for k := range uint64(n) {
		table.insert(entry{key: k << 40, offset: uint32(k), copies: copies{1}})
	}
	for k := range uint64(n) {
		if e := table.find(k << 40); e == nil || e.offset != uint32(k) {
			t.Fatalf("find(%d) = %+v", k, e)
		}
		if table.find(k<<40+1) != nil {
			t.Fatalf("find(%d) finds a stranger", k)
		}
	}
	for k := range uint64(n) {
		table.remove(k << 40)
		if table.find(k<<40) != nil || k+1 < n && table.find((k+1)<<40) == nil {
			t.Fatalf("remove(%d) went wrong", k)
		}
	}
	if table.len != 0 || len(table.slots) > entryTableMin {
		t.Errorf("%d entries in %d slots are left", table.len, len(table.slots))
	}
}

// A look-up after the publishing of a larger table and before the first word set in it must see
// all holders.
func TestGrownCoverageTableKeepsAll(t *testing.T) {
	small := newCoverageTable(2)
	small.set(0, packCoverage(3, 2, 1))
	small.set(1, packCoverage(4, 2, 2))
	large := growCoverageTable(small.words(), 3)
	if len(large.all()) < 3 || len(large.words()) != 2 {
		t.Fatalf("leadsOf has %d words, %d used", len(large.all()), len(large.words()))
	}
	for i := range small.words() {
		if large.words()[i].Load() != small.words()[i].Load() {
			t.Errorf("word %d is lost", i)
		}
	}
}

func TestSizeClasses(t *testing.T) {
	for n := 1; n <= maxRun; n += 1 + n/100 {
		s := classOf(n)
		if classBlocks(s) < n || s > 0 && classBlocks(s-1) >= n {
			t.Fatalf("shapeOf(%d) = %d of %d blocks", n, s, classBlocks(s))
		}
		if idle := classBlocks(s) - n; idle > n/8 {
			t.Errorf("%d of %d blocks lie idle", idle, classBlocks(s))
		}
	}
	if n := classBlocks(len(viewTypes) - 1); n != maxRun {
		t.Errorf("the largest face has %d blocks, want %d", n, maxRun)
	}
}
