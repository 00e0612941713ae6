package tokens

import (
	"hash/maphash"
	"math/bits"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// key names a prompt by 128 bits of two seeded hashes: hi is of all of it, lo of its length and its
// ends, since a second pass over a prompt would cost as much as the first (5 µs for 64 KiB). The
// seeds are random for each Source, so a client cannot search for two prompts with one key. A
// collision would route a prompt by the ids of another; its answer would still be its own.
type key struct{ hi, lo uint64 }

// keyHasher makes keys with two seeds.
type keyHasher [2]maphash.Seed

// of hashes all fields that decide the ids. The raw JSON is hashed instead of its value: two
// spellings of one prompt are two keys, which costs one fetch.
func (h *keyHasher) of(req *openai.Request) key {
	k := h.mix(key{}, req.RawModel)
	if req.Messages == nil {
		return h.mix(k, req.Prompt)
	}
	k = h.mix(k, req.Messages)
	for _, f := range req.PromptFields() {
		k = h.mixString(k, f.Name)
		k = h.mix(k, f.Raw)
	}
	return k
}

// oddMultiplier makes the order of the parts count: 2⁶⁴ over the golden ratio, odd.
const oddMultiplier = 0x9e3779b97f4a7c15

// sampledEnd is the number of bytes of each end of a part that lo covers: prompts of one length
// differ in their last message.
const sampledEnd = 512

func (h *keyHasher) mix(k key, part []byte) key {
	hi := maphash.Bytes(h[0], part)
	if len(part) <= 2*sampledEnd {
		return k.add(hi, maphash.Bytes(h[1], part))
	}
	lo := maphash.Bytes(h[1], part[:sampledEnd]) ^ bits.RotateLeft64(maphash.Bytes(h[1], part[len(part)-sampledEnd:]), 32)
	return k.add(hi, lo+uint64(len(part)))
}

func (h *keyHasher) mixString(k key, part string) key {
	return k.add(maphash.String(h[0], part), maphash.String(h[1], part))
}

func (k key) add(hi, lo uint64) key {
	return key{k.hi*oddMultiplier + hi, k.lo*oddMultiplier + lo}
}
