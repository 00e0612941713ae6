package radix

import "errors"

// A snapshot has the blocks of chosen workers, in a form that does not depend on the index's
// structures: stretches of blocks, each written once for all holders, and for each worker the
// blocks of each stretch that it holds. It begins with
//
//	8 bytes  "WARMPIDX"
//	1 byte   version
//
// and continues with one zstd frame, whose checksum covers the records below. Numbers are
// unsigned varints unless a size is given; texts are a length and bytes; stretches and domains
// are numbered from 0 in the order of their records:
//
//	seed         8 bytes; once, in front
//	fingerprint  8 bytes; behind it: the result of the hash functions for a fixed input
//	domain       model, block size, LoRA, salt, bigram (0 or 1)
//	stretch      parent + 1 and offset in it, or 0 and domain; n; n block hashes;
//	             n engine hashes (all hashes have 8 bytes)
//	extension    stretch; n more block hashes; n more engine hashes
//	worker       name, meta, holdings, entries, aliases
//	end          stretches, blocks, workers, engine hashes; last
//
// A holding is its stretch (as a zigzag distance from the holding before) and for each tier the
// number of pieces of listed copies, each piece as blocks left out and blocks held. An entry is
// a block with other copies: stretch (as a distance from the entry before), offset, copies per
// tier, engine hash of 8 bytes. An alias is an engine hash of 8 bytes, the removals per tier,
// and its blocks: stretch, offset, copies per tier. The number of holdings, entries, aliases
// and blocks is in front of them.
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
	// maxSnapshotWorkers bounds the workers of a file, because adding a worker copies the table
	// of all.
	maxSnapshotWorkers = 1 << 16
	// maxSnapshotBytes bounds the index that a file may describe if there is no budget: a few
	// bytes of a file can describe many. 100 million entries that no two workers share take 5
	// GB.
	maxSnapshotBytes = 8 << 30
	// snapshotWindow bounds the memory of zstd on both sides. Hashes do not repeat, so more
	// gains nothing.
	snapshotWindow = 1 << 20
	// flushAt is the size at which records go to the compressor: one of its blocks.
	flushAt = 128 << 10
)

var (
	// ErrSnapshotVersion means that another release wrote the snapshot in a form unknown to
	// this one.
	ErrSnapshotVersion = errors.New("radix: snapshot of another version")
	// ErrSnapshotCorrupt means that a file is no snapshot or is damaged.
	ErrSnapshotCorrupt = errors.New("radix: snapshot is corrupt")
)

// SnapshotCounts has the sizes of a snapshot.
type SnapshotCounts struct {
	Workers   int
	Stretches int
	Blocks    int // distinct blocks
	Entries   int // engine hashes held, over all workers
}

// Restored is a worker of a snapshot in its new index.
type Restored struct {
	Worker Worker
	Name   string // as given to Take
	Meta   []byte // as given to Take
}
