package index

import (
	"math/rand/v2"

	"github.com/warmpath/warmpath/radix"
)

// These prompts are in a domain of their own beside the workload, so that the index has its
// size. Neither their tokens nor their runs fit into a core's second-level cache.
const (
	tokenPrompts  = 64
	promptTokens  = 16384
	promptBlock   = 16
	promptHolders = 8  // of each prompt
	turnBlocks    = 32 // blocks of a turn of 512 tokens
	tokenPasses   = 20
)

// tokenPrompt is a prompt with its block hashes.
type tokenPrompt struct {
	tokens []uint32
	chain  []radix.Hash
}

// matchTokens measures the time from token ids to the holders of the prompt.
func (b *round) matchTokens(p *Player) {
	if !b.step("token ids to workers") {
		return
	}
	d := p.Index.Domain(radix.DomainKey{Model: "decision", BlockSize: promptBlock})
	r := rand.New(rand.NewPCG(13, 13))
	holders := min(promptHolders, b.w.Workers)
	held, unheld := make([]tokenPrompt, tokenPrompts), make([]tokenPrompt, tokenPrompts)
	for i := range held {
		held[i], unheld[i] = newTokenPrompt(p.Index, r), newTokenPrompt(p.Index, r)
		hashes := make([]uint64, len(held[i].chain))
		for j := range hashes {
			hashes[j] = r.Uint64()
		}
		for k := range holders {
			w := radix.Worker((i*holders + k) % b.w.Workers)
			s := radix.Store{Worker: w, Domain: d, Engine: hashes, Blocks: held[i].chain}
			if p.Index.Store(s) != nil {
				b.r.Refused++
			}
		}
	}
	const all = promptTokens / promptBlock
	b.timeTokens(p, d, "16,384 tokens, nothing known, all held", held, 0, holders)
	b.timeTokens(p, d, "16,384 tokens, nothing known, none held", unheld, 0, 0)
	b.timeTokens(p, d, "16,384 tokens, all but 512 known", held, all-turnBlocks, holders)
	b.timeTokens(p, d, "16,384 tokens, all known", held, all, holders)
}

func newTokenPrompt(x *radix.Index, r *rand.Rand) tokenPrompt {
	tokens := make([]uint32, promptTokens)
	for i := range tokens {
		tokens[i] = r.Uint32N(128_000) // a vocabulary
	}
	return tokenPrompt{tokens, x.AppendHashes(nil, tokens, promptBlock)}
}

// timeTokens times each prompt with that many block hashes known; the others are hashed into
// existing memory.
func (b *round) timeTokens(
	p *Player, d radix.Domain, name string, prompts []tokenPrompt, known, holders int,
) {
	var times []uint32
	buf := make([]radix.Overlap, 0, b.w.Workers)
	hashes := make([]radix.Hash, promptTokens/promptBlock)
	wrong := 0
	for range tokenPasses {
		for i := range prompts {
			have := hashes[:0]
			if known > 0 {
				have = prompts[i].chain[:known]
			}
			t := b.now()
			buf, _ = p.Index.MatchTokens(buf[:0], have, d, prompts[i].tokens, promptBlock)
			times = append(times, uint32(b.now()-t))
			if len(buf) != holders || holders > 0 && int(buf[0].Blocks) != len(prompts[i].chain) {
				wrong++
			}
		}
	}
	b.r.Wrong = max(b.r.Wrong, wrong)
	b.r.addTimes(name, times, 50)
}
