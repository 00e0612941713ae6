package radix

import (
	"math/bits"
	"reflect"
	"sync/atomic"
	"unsafe"
)

// face is what look-ups read of a run: one header of a cache line, and behind it in the same piece of memory the hashes of the run's
// blocks, and behind those the names of one that is not predicted. A look-up so meets two cache lines that depend on each other for each
// run: the slot of the child table, and the face.
//
// All but n, wanted, leads, solo and kids never change. They are written under the run's lock, which also guards replacing the
// face when the blocks outgrow it. Look-ups on the old one finish on it: its words are right until then and are never written again.
type face struct {
	id     uint64 // of the run
	parent uint64 // id of the run that it hangs on; of a root, its domain
	offset uint32 // blocks of the parent before it
	size   uint32 // blocks that there is memory for
	n      atomic.Uint32
	wanted atomic.Uint32 // 1 after a look-up or a store came through, until the budget's clock passes
	run    *run
	leads  atomic.Pointer[leads] // nil while no more than one worker holds a part: then solo is its word
	solo   [1]atomic.Uint64
	kids   atomic.Uint64 // a bit for each child, by its key's hash: most ends of a match are known without a look into the table
}

// hashes returns the blocks published. A hash never changes; behind them may be written to.
func (f *face) hashes() []Hash { return f.all()[:f.n.Load()] }

// all returns the memory for blocks.
func (f *face) all() []Hash {
	return unsafe.Slice((*Hash)(unsafe.Add(unsafe.Pointer(f), unsafe.Sizeof(face{}))), f.size)
}

// want keeps the run from the clock for a turn. The word is in a line that whoever comes through reads anyway, and is written only when
// the clock has been there since.
func (f *face) want() {
	if f.wanted.Load() == 0 {
		f.wanted.Store(1)
	}
}

// words returns the leads of the holds by slot; 0 where there is none.
func (f *face) words() ([]atomic.Uint64, *leads) {
	if l := f.leads.Load(); l != nil {
		return l.words(), l
	}
	return f.solo[:], nil
}

// newFace returns a face for blocks of a run, with room for size of them and as many names.
func newFace(r *run, blocks []Hash, size int) *face {
	s := shapeOf(size)
	f := (*face)(reflect.New(shapes[s]).UnsafePointer())
	parent := uint64(r.domain)
	if r.parent != nil {
		parent = r.parent.id
	}
	f.begin(r, parent, blocks, s)
	return f
}

// begin fills a face whose memory has a shape.
func (f *face) begin(r *run, parent uint64, blocks []Hash, shape int) {
	f.id, f.parent, f.offset, f.run, f.size = r.id, parent, r.offset, r, uint32(shapeSize(shape))
	f.n.Store(uint32(copy(f.all(), blocks)))
}

// replaced returns a face of another size with the same blocks up to n. The run is locked.
func (f *face) replaced(n, size int) *face {
	g := newFace(f.run, f.all()[:n], size)
	g.leads.Store(f.leads.Load())
	g.solo[0].Store(f.solo[0].Load())
	g.kids.Store(f.kids.Load())
	g.wanted.Store(f.wanted.Load())
	return g
}

// shapes are the types of faces by size: the collector must know that there are pointers in the header and none behind it. Eight to an
// octave keep what lies idle below an eighth.
var shapes = shapesOf(reflect.TypeFor[face](), func(n int) int { return 2*n + 1 })

// shapesOf returns the types of a header and so many words behind it.
func shapesOf(header reflect.Type, words func(blocks int) int) (types []reflect.Type) {
	for s := 0; s == 0 || shapeSize(s-1) < maxRun; s++ {
		types = append(types, reflect.StructOf([]reflect.StructField{
			{Name: "Header", Type: header}, {Name: "Words", Type: reflect.ArrayOf(words(shapeSize(s)), reflect.TypeFor[uint64]())},
		}))
	}
	return types
}

// shapeSize returns the blocks of a shape: 1 to 8, then 9, 10 … 16, 18 … 32, 36 … and so on.
func shapeSize(s int) int {
	if s < 8 {
		return s + 1
	}
	return (8 + s%8 + 1) << (s/8 - 1)
}

// shapeOf returns the smallest shape for n blocks.
func shapeOf(n int) int {
	if n <= 8 {
		return max(n, 1) - 1
	}
	octave := bits.Len(uint(n-1)) - 4 // n-1 is in [8, 16) << octave
	return 8*(octave+1) + (n-1)>>octave - 8
}
