package kvevent

// Kind says what happened to the blocks of an event.
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

// Medium is the storage tier that an event speaks of.
type Medium uint8

// The tiers. Engines name them differently; see [Event.MediumName].
const (
	MediumNone    Medium = iota // Absent or nil: releases before 0.5.10, which know the GPU only.
	MediumGPU                   // "GPU"
	MediumCPU                   // "CPU_PINNED" (SGLang), "CPU" (vLLM)
	MediumStorage               // "DISK", "EXTERNAL" (SGLang, never sent up to 0.5.23), "STORAGE" (vLLM)
	MediumOther                 // A name this package does not know.
)

// Event is one change of a rank's cache. The zero value of a field means that the event does not carry it, unless a
// Has field says so.
type Event struct {
	Kind   Kind
	Medium Medium

	HasParent bool
	HasLoRAID bool
	Bigram    bool // Tokens holds pairs: EAGLE's cache is keyed by [token, next token].
	Unsigned  bool // A hash came as an integer above the signed range (vLLM); print hashes unsigned.

	// Hashes are the engine's names of the blocks, in chain order. A signed integer is its two's complement; a byte
	// string is its first eight bytes, big-endian, and stands whole in RawHashes.
	Hashes []uint64
	Parent uint64 // Hash of the block before the first, if HasParent.

	// RawHashes is nil if every hash is an integer; otherwise one entry per hash, nil for an integer.
	RawHashes [][]byte
	RawParent []byte

	Tokens    []uint32 // BlockSize tokens per hash; 2×BlockSize if Bigram.
	BlockSize int      // In tokens (in pairs if Bigram). Where an event does not say it, what follows from its lists.

	LoRAID     int64
	LoRAName   []byte
	CacheSalt  []byte // Isolates tenants; SGLang's hashes already depend on it.
	SessionID  []byte // Who caused the store; the hash does not depend on it.
	MediumName []byte // The name as sent, if Medium is MediumStorage or MediumOther.

	// ExtraKeys holds raw msgpack per block, nil for a block without extra keys (vLLM: LoRA name, image hashes, salt).
	ExtraKeys [][]byte
	// ExtraKey is the one of all blocks, raw msgpack: tokens with it are not those without. No engine sends it yet.
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

// Batch is one message's content. The zero value is ready to use; see the package's Ownership section.
type Batch struct {
	Time    float64 // Seconds since 1970, by the engine's clock.
	Rank    int     // Data-parallel rank, if HasRank.
	HasRank bool
	Events  []Event

	UnknownEvents int // Events of a kind this package does not know, skipped.
	UnknownFields int // Fields this package does not know, or with values that it does not, skipped.
	BadEvents     int // Events that make no sense, skipped.

	// WideTokens counts token ids outside uint32. Such an id is folded to its low 32 bits XOR its high 32 bits: the same
	// id always gives the same value, so content hashes agree between workers, but it cannot be encoded back. Strings and
	// bytes in the place of ids, as names of images, are folded to their CRC-32C.
	WideTokens int

	hashes hashBuffer
	tokens tokenBuffer
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
