package routing

import "github.com/warmpath/warmpath/dataplane/routing/family"

const (
	// prefixTokens is how much of a prompt policies hash that choose by its beginning, as smg does; prefixBytes is about the same
	// of text.
	prefixTokens = 256
	prefixBytes  = 1024
	// FNV-1a's numbers.
	hashStart = 14695981039346656037
	hashPrime = 1099511628211
)

// prefix is a hash of how the prompt begins, the same in every router; 0 where
// nothing is known of it. A prompt must always be known by ids or always by
// text to have always the same.
func (p *Prompt) prefix() uint64 { return p.beginning(1) }

// family is the same of 256, 512, 1,024 and so on tokens, as many as parts the prompt from others that are too many for one rank. None is
// the whole prompt: a conversation that grows keeps its name until it has doubled.
func (p *Prompt) family(f *family.Names, ranks int) uint64 {
	if p.beginning(1) == 0 {
		return 0
	}
	return f.Name(ranks, func(n int) (uint64, bool) {
		times := 1 << n
		if p.Exact {
			return p.beginning(times), len(p.Tokens) >= 2*times*prefixTokens
		}
		return p.beginning(times), len(p.Text) >= 2*times*prefixBytes
	})
}

// beginning hashes so many times prefixTokens or prefixBytes.
func (p *Prompt) beginning(times int) uint64 {
	h := uint64(hashStart)
	for _, name := range [...]string{p.LoRA, p.Salt, p.ExtraKey} { // prompts that share no cache
		for i := range len(name) {
			h = (h ^ uint64(name[i])) * hashPrime
		}
		h = (h ^ 0xff) * hashPrime
	}
	switch {
	case p.Exact && len(p.Tokens) > 0:
		for _, id := range p.Tokens[:min(len(p.Tokens), times*prefixTokens)] {
			h = scatter(h ^ uint64(id))
		}
	case len(p.Text) > 0:
		for _, c := range p.Text[:min(len(p.Text), times*prefixBytes)] {
			h = (h ^ uint64(c)) * hashPrime
		}
		h = scatter(h)
	default:
		return 0
	}
	return max(h, 1)
}

// scatter spreads a number over 64 bits (splitmix64's finalizer).
func scatter(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
