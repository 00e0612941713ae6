package tokens

import (
	"hash/maphash"

	"github.com/warmpath/warmpath/dataplane/openai"
)

// key names a prompt by 128 bits of two seeded hashes. The seeds are random for each Source, so
// nobody outside can look for two prompts with one key.
type key struct{ hi, lo uint64 }

// keyOf hashes all that decides the ids. The raw JSON stands for the value: two spellings of one
// prompt are two keys, which costs a fetch and nothing else.
func (s *Source) keyOf(req *openai.Request) key {
	k := s.mix(key{}, req.RawModel)
	if req.Messages == nil {
		return s.mix(k, req.Prompt)
	}
	k = s.mix(k, req.Messages)
	for _, f := range req.PromptFields() {
		k = s.mixString(k, f.Name)
		k = s.mix(k, f.Raw)
	}
	return k
}

// oddMultiplier makes the order of the parts count: 2⁶⁴ over the golden ratio, odd.
const oddMultiplier = 0x9e3779b97f4a7c15

func (s *Source) mix(k key, part []byte) key {
	return k.add(maphash.Bytes(s.seeds[0], part), maphash.Bytes(s.seeds[1], part))
}

func (s *Source) mixString(k key, part string) key {
	return k.add(maphash.String(s.seeds[0], part), maphash.String(s.seeds[1], part))
}

func (k key) add(hi, lo uint64) key {
	return key{k.hi*oddMultiplier + hi, k.lo*oddMultiplier + lo}
}
