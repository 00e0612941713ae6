package radix

import (
	"math/bits"
	"reflect"
	"sync/atomic"
	"unsafe"
)

// runView is the part of a run that look-ups read: this header of one cache line, then the
// block hashes, then the engine hashes, in one piece of memory. So each run costs a look-up two
// dependent cache misses: the slot of the child table, and the view.
//
// Only n, referenced, table, single and childBits change. The run's lock guards writes, and the
// replacement of a view that the blocks outgrow. A look-up on the old view finishes there: its
// words were right until the replacement and are never written again.
type runView struct {
	id         uint64 // of the run
	parent     uint64 // run id of the parent; of a root, its domain
	offset     uint32 // blocks of the parent before this run
	size       uint32 // blocks that fit
	n          atomic.Uint32
	referenced atomic.Uint32 // the reference bit of the CLOCK that evicts
	run        *run
	table      atomic.Pointer[coverageTable] // nil: single is the only coverage word
	single     [1]atomic.Uint64
	// A bit for each child, by hash: saves most look-ups at the end of a match.
	childBits atomic.Uint64
}

// newRunView returns a view of a run with room for size blocks and their engine hashes.
func newRunView(r *run, blocks []Hash, size int) *runView {
	class := classOf(size)
	v := (*runView)(reflect.New(viewTypes[class]).UnsafePointer())
	parent := uint64(r.domain)
	if r.parent != nil {
		parent = r.parent.id
	}
	v.init(r, parent, blocks, class)
	return v
}

// init fills a view with memory of the given size class.
func (v *runView) init(r *run, parent uint64, blocks []Hash, class int) {
	v.id, v.parent, v.offset, v.run, v.size = r.id, parent, r.offset, r, uint32(classBlocks(class))
	v.n.Store(uint32(copy(v.all(), blocks)))
}

// hashes returns the published blocks. A published hash never changes; writers fill the memory
// behind.
func (v *runView) hashes() []Hash { return v.all()[:v.n.Load()] }

// all returns the memory of the blocks.
func (v *runView) all() []Hash {
	return unsafe.Slice((*Hash)(unsafe.Add(unsafe.Pointer(v), unsafe.Sizeof(runView{}))), v.size)
}

// engineHashes returns the memory behind the blocks: the number of engine hashes, then the
// hashes. With the number in front no slice header is needed, which would be one more cache
// miss between a slot of the block table and the engine hash.
func (v *runView) engineHashes() *uint64 {
	blocks := uintptr(v.size) * unsafe.Sizeof(Hash(0))
	return (*uint64)(unsafe.Add(unsafe.Pointer(v), unsafe.Sizeof(runView{})+blocks))
}

func (v *runView) hasKey(parent uint64, offset uint32, first Hash) bool {
	return v.parent == parent && v.offset == offset && v.all()[0] == first
}

// markReferenced sets the reference bit. Its cache line is read anyway, and is written only if
// the clock hand has passed since.
func (v *runView) markReferenced() {
	if v.referenced.Load() == 0 {
		v.referenced.Store(1)
	}
}

// coverages returns the coverage words by slot; 0 is a free slot.
func (v *runView) coverages() ([]atomic.Uint64, *coverageTable) {
	if t := v.table.Load(); t != nil {
		return t.words(), t
	}
	return v.single[:], nil
}

func (v *runView) coverage(slot int) uint64 {
	words, _ := v.coverages()
	return words[slot].Load()
}

func (v *runView) setCoverage(slot uint32, word uint64) {
	if t := v.table.Load(); t != nil {
		t.set(slot, word)
		return
	}
	v.single[slot].Store(word)
}

// makeRoom makes room for the words of n slots.
func (v *runView) makeRoom(n int) {
	t := v.table.Load()
	if t == nil && n > len(v.single) || t != nil && n > int(t.size) {
		words, _ := v.coverages()
		v.table.Store(growCoverageTable(words, n))
	}
}

// resized returns a view with the first n blocks and room for size. The run is locked.
func (v *runView) resized(n, size int) *runView {
	w := newRunView(v.run, v.all()[:n], size)
	w.table.Store(v.table.Load())
	w.single[0].Store(v.single[0].Load())
	w.childBits.Store(v.childBits.Load())
	w.referenced.Store(v.referenced.Load())
	return w
}

// viewTypes are the types of views by size class: the collector needs to know that pointers are
// in the header and none behind it. Eight classes to an octave leave less than an eighth
// unused.
var viewTypes = typesWithTail(reflect.TypeFor[runView](), 2, 1)

// typesWithTail returns, for each size class, the type of a header with words behind it:
// perBlock for each block, and some fixed ones.
func typesWithTail(header reflect.Type, perBlock, fixed int) (types []reflect.Type) {
	for class := 0; class == 0 || classBlocks(class-1) < maxRun; class++ {
		words := perBlock*classBlocks(class) + fixed
		types = append(types, reflect.StructOf([]reflect.StructField{
			{Name: "Header", Type: header},
			{Name: "Words", Type: reflect.ArrayOf(words, reflect.TypeFor[uint64]())},
		}))
	}
	return types
}

// classBlocks returns the blocks of a size class: 1 to 8, then 9, 10 … 16, 18 … 32, 36 and so
// on.
func classBlocks(class int) int {
	if class < 8 {
		return class + 1
	}
	return (8 + class%8 + 1) << (class/8 - 1)
}

// classOf returns the smallest size class for n blocks.
func classOf(n int) int {
	if n <= 8 {
		return max(n, 1) - 1
	}
	octave := bits.Len(uint(n-1)) - 4 // n-1 is in [8, 16) << octave
	return 8*(octave+1) + (n-1)>>octave - 8
}
