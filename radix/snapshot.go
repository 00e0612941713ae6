package radix

import "errors"

// A snapshot is what chosen workers hold, in a form that does not depend on how the index keeps it: stretches of blocks, each written
// once however many hold it, and for each worker which blocks of which stretch it holds. It begins with
//
//	8 bytes  "WARMPIDX"
//	1 byte   version
//
// and goes on with one zstd frame, whose checksum covers all of these records. Numbers are unsigned varints unless they have a
// size, texts are a length and bytes, stretches and domains are counted from 0 in the order of their records:
//
//	seed       8 bytes; once, in front
//	probe      8 bytes; behind it: what the hash functions make of a fixed input, as other releases' may differ
//	domain     model, block size, LoRA, salt, bigram (0 or 1)
//	stretch    parent + 1 and offset in it, or 0 and domain; n; n hashes of 8 bytes; n names of 8 bytes
//	extension  stretch; n more hashes; n more names
//	worker     name, meta, holds, entries, aliases
//	end        stretches, blocks, workers, engine hashes; last
//
// A hold is its stretch (as a zigzag distance from the hold before) and for each tier the number of pieces, each as blocks left out and
// blocks held, of what is held once under the stretch's names. An entry is a block held in any other way: stretch (as a distance from
// the entry before), offset, copies per tier, engine hash of 8 bytes. An alias is an engine hash of 8 bytes, the removals per tier, and
// its places: stretch, offset, copies per tier. Holds, entries, aliases and places have their number in front.
//
// Fixed sizes are little-endian.
const (
	snapshotMagic   = "WARMPIDX"
	snapshotVersion = 1

	recordDomain    = 'D'
	recordStretch   = 'S'
	recordExtension = 'X'
	recordWorker    = 'W'
	recordEnd       = 'E'
)

const (
	// maxText bounds names and the parts of domain keys: a URL, a path, a salt.
	maxText = 64 << 10
	// maxSnapshotWorkers is 16 times what the index is built for: adding a worker copies the table of all.
	maxSnapshotWorkers = 1 << 16
	// maxSnapshotBytes bounds the index that a file may describe where there is no budget: 100 million entries that nobody shares take
	// 5 GB. A few bytes of a file can describe much more than they are.
	maxSnapshotBytes = 8 << 30
	// snapshotWindow bounds what zstd keeps on either side: hashes do not repeat, so more brings nothing.
	snapshotWindow = 1 << 20
)

var (
	// ErrSnapshotVersion says that a snapshot was written by another release in a form that this one does not read.
	ErrSnapshotVersion = errors.New("radix: snapshot of another version")
	// ErrSnapshotCorrupt says that a file is no snapshot, or not as it was written.
	ErrSnapshotCorrupt = errors.New("radix: snapshot is corrupt")
)

// SnapshotCounts says how much a snapshot holds.
type SnapshotCounts struct {
	Workers   int
	Stretches int
	Blocks    int // distinct blocks
	Entries   int // engine hashes held, over all workers
}

// Restored is a worker of a snapshot in its new index.
type Restored struct {
	Worker Worker
	Name   string // both as they were given to Take
	Meta   []byte
}
