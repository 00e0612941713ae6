package kvevent

// Kind is the kind of an event.
type Kind uint8

// The kinds of event that engines publish.
const (
	Stored  Kind = iota + 1 // "BlockStored": the blocks can be reused from now on.
	Removed                 // "BlockRemoved": the blocks left the medium named in the event.
	Cleared                 // "AllBlocksCleared": every block of this rank is gone.
)

// String returns the engine's own name of k.
func (k Kind) String() string {
	switch k {
	case Stored:
		return tagStored
	case Removed:
		return tagRemoved
	case Cleared:
		return tagCleared
	}
	return "Unknown"
}

// Medium is the tier of an event's blocks.
type Medium uint8

// The tiers. Engines name them differently; see [Event.MediumName].
const (
	MediumNone Medium = iota // Absent or nil: releases before 0.5.10, which know the GPU only.
	MediumGPU                // "GPU"
	MediumCPU                // "CPU_PINNED" (SGLang), "CPU" (vLLM)
	// "DISK", "EXTERNAL" (SGLang, never sent up to 0.5.23), "STORAGE" (vLLM).
	MediumStorage
	MediumOther // A name this package does not know.
)

// Event is one change of a rank's cache. A zero field is absent from the event, unless a Has
// field says otherwise.
type Event struct {
	Kind   Kind
	Medium Medium

	HasParent bool
	HasLoRAID bool
	Bigram    bool // Tokens holds pairs: EAGLE's cache is keyed by [token, next token].
	Unsigned  bool // An integer hash exceeds int64 (vLLM); print hashes unsigned.

	// Hashes are the engine's hashes of the blocks, in chain order: an integer in two's
	// complement, or the first eight bytes of a byte string, big-endian, which RawHashes holds
	// whole.
	Hashes []uint64
	Parent uint64 // Hash of the block before the first, if HasParent.

	// RawHashes is nil if every hash is an integer; otherwise it has one entry for each hash,
	// nil for an integer.
	RawHashes [][]byte
	RawParent []byte

	Tokens    []uint32 // BlockSize tokens per hash; 2×BlockSize if Bigram.
	BlockSize int      // In tokens, or pairs if Bigram; derived from the lists if absent.

	LoRAID     int64
	LoRAName   []byte
	CacheSalt  []byte // Isolates tenants; SGLang's hashes already depend on it.
	SessionID  []byte // Session of the request that stored the blocks; not part of the hash.
	MediumName []byte // The name as sent, if Medium is MediumStorage or MediumOther.

	// ExtraKeys holds raw msgpack for each block, nil for a block without extra keys (vLLM:
	// LoRA name, image hashes, salt).
	ExtraKeys [][]byte
	// ExtraKey is raw msgpack for all blocks: equal tokens with another key are other blocks.
	// No engine sends it yet.
	ExtraKey []byte

	CacheGroup
}

// CacheGroup is the part of a hybrid model's cache that an event of vLLM is about.
type CacheGroup struct {
	HasGroup      bool
	Group         int    // Number of the group, if HasGroup.
	SpecKind      []byte // "full_attention", "sliding_window", …
	SlidingWindow int    // In tokens; 0 if the group has none.
	Locality      []byte // "LOCAL", …
	Ownership     []byte // Of the storage tier.
}

// Batch is the content of one message. The zero value is ready to use; see Ownership above.
type Batch struct {
	Time    float64 // Seconds since 1970, by the engine's clock.
	Rank    int     // Data-parallel rank, if HasRank.
	HasRank bool
	Events  []Event

	UnknownEvents int // Skipped events of unknown kinds.
	UnknownFields int // Skipped fields that are unknown or have unknown values.
	BadEvents     int // Skipped events that cannot be read.

	// WideTokens counts token ids outside uint32. Such an id is folded to its low 32 bits XOR
	// its high 32 bits: equal ids stay equal, so content hashes agree between workers, but the
	// id cannot be encoded back. Strings and bytes in place of ids, such as names of images,
	// are folded to their CRC-32C.
	WideTokens int

	hashes hashBuffer
	tokens tokenBuffer
}

// Readable reports whether most of the events were read, of known kinds, with lists that fit.
func (b *Batch) Readable() bool {
	bad := b.BadEvents + b.UnknownEvents
	all := bad + len(b.Events)
	for i := range b.Events {
		if e := &b.Events[i]; e.Kind == Stored && !e.Fits() {
			bad++
		}
	}
	return 2*bad < all || all == 0
}

// Fits reports whether a store has a block's tokens for each hash.
func (e *Event) Fits() bool {
	width := e.BlockSize
	if e.Bigram {
		width *= 2
	}
	return width > 0 && len(e.Hashes) > 0 && len(e.Tokens) == width*len(e.Hashes)
}

// Names on the wire, common to all releases.
const (
	tagStored  = "BlockStored"
	tagRemoved = "BlockRemoved"
	tagCleared = "AllBlocksCleared"

	nameGPU      = "GPU"
	nameCPU      = "CPU_PINNED"
	nameCPUvLLM  = "CPU"
	nameDisk     = "DISK"
	nameExternal = "EXTERNAL"
	nameStorage  = "STORAGE"
)

// kindOf returns the kind that tag names, or 0.
func kindOf(tag []byte) Kind {
	switch string(tag) {
	case tagStored:
		return Stored
	case tagRemoved:
		return Removed
	case tagCleared:
		return Cleared
	}
	return 0
}

// mediumOf returns the tier that an engine calls name, in any case.
func mediumOf(name []byte) Medium {
	var upper [len(nameCPU)]byte // the longest
	if len(name) > len(upper) {
		return MediumOther
	}
	for i, c := range name {
		if c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		upper[i] = c
	}
	switch string(upper[:len(name)]) {
	case nameGPU:
		return MediumGPU
	case nameCPU, nameCPUvLLM:
		return MediumCPU
	case nameDisk, nameExternal, nameStorage:
		return MediumStorage
	}
	return MediumOther
}
