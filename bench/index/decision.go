package index

import (
	"math/rand/v2"

	"github.com/warmpath/warmpath/radix"
)

// A decision begins with token ids. These prompts are in a domain of their own beside the workload, so that the index is of its size; there
// are enough of them that neither their tokens nor their runs stay in a core's second-level cache.
const (
	decisionPrompts = 64
	decisionTokens  = 16384
	decisionBlock   = 16
	decisionHolders = 8  // workers that hold each prompt
	decisionTurn    = 32 // blocks of a turn of 512 tokens
	decisionPasses  = 20
)

// decision is a prompt with the hashes of all its blocks.
type decision struct {
	tokens []uint32
	chain  []radix.Hash
}

// decide measures how long it takes from token ids to the workers that hold the prompt.
func (b *bench) decide(p *Player) {
	if !b.begin("token ids to workers") {
		return
	}
	d := p.Index.Domain(radix.DomainKey{Model: "decision", BlockSize: decisionBlock})
	r := rand.New(rand.NewPCG(13, 13))
	holders := min(decisionHolders, b.w.Workers)
	held, unheld := make([]decision, decisionPrompts), make([]decision, decisionPrompts)
	for i := range held {
		held[i], unheld[i] = newDecision(p.Index, r), newDecision(p.Index, r)
		names := make([]uint64, len(held[i].chain))
		for j := range names {
			names[j] = r.Uint64()
		}
		for k := range holders {
			w := radix.Worker((i*holders + k) % b.w.Workers)
			if p.Index.Store(radix.Store{Worker: w, Domain: d, Engine: names, Blocks: held[i].chain}) != nil {
				b.r.Refused++
			}
		}
	}
	const all = decisionTokens / decisionBlock
	b.decideAll(p, d, "16,384 tokens, nothing known, all held", held, 0, holders)
	b.decideAll(p, d, "16,384 tokens, nothing known, none held", unheld, 0, 0)
	b.decideAll(p, d, "16,384 tokens, all but 512 known", held, all-decisionTurn, holders)
	b.decideAll(p, d, "16,384 tokens, all known", held, all, holders)
}

func newDecision(x *radix.Index, r *rand.Rand) decision {
	tokens := make([]uint32, decisionTokens)
	for i := range tokens {
		tokens[i] = r.Uint32N(128_000) // a vocabulary
	}
	return decision{tokens, x.AppendHashes(nil, tokens, decisionBlock)}
}

// decideAll times each prompt where the hashes of so many blocks are known; the rest is hashed into memory that is there.
func (b *bench) decideAll(p *Player, d radix.Domain, name string, prompts []decision, known, holders int) {
	var times []uint32
	buf := make([]radix.Overlap, 0, b.w.Workers)
	hashes := make([]radix.Hash, decisionTokens/decisionBlock)
	wrong := 0
	for range decisionPasses {
		for i := range prompts {
			have := hashes[:0]
			if known > 0 {
				have = prompts[i].chain[:known]
			}
			t := b.now()
			buf, _ = p.Index.MatchTokens(buf[:0], have, d, prompts[i].tokens, decisionBlock)
			times = append(times, uint32(b.now()-t))
			if len(buf) != holders || holders > 0 && uint64(buf[0].Blocks) != uint64(len(prompts[i].chain)) {
				wrong++
			}
		}
	}
	b.r.Wrong = max(b.r.Wrong, wrong)
	b.r.addTimes(name, times, 50)
}
