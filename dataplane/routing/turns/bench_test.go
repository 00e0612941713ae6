package turns_test

import (
	"fmt"
	"testing"

	"github.com/warmpath/warmpath/dataplane/routing/turns"
)

// BenchmarkTurn is a request of an agent among 1,000: its prefixes, its place and the notes of its
// begin and end. A unit is 32 tokens. cold: no prompt before begins like it.
func BenchmarkTurn(b *testing.B) {
	for _, size := range []int{32, 512, 2816} {
		for _, cold := range []bool{false, true} {
			b.Run(fmt.Sprintf("units=%d/cold=%v", size, cold), func(b *testing.B) {
				table, now := turns.New(1), int64(0)
				prompts := make([][]uint64, 1000)
				prefixes := make([]uint64, 0, 2*size)
				turn := func(p []uint64) {
					now++
					prefixes = turns.AppendPrefixes(prefixes[:0], table, p)
					f := table.Find(prefixes, 0, false)
					table.Begin(&f, prefixes, now)
					table.End(&f, now)
				}
				for i := range prompts {
					prompts[i] = units(uint64(i), size+64)
					if !cold {
						turn(prompts[i][:size-32])
						turn(prompts[i][:size-16])
					}
				}
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					p := prompts[i%len(prompts)]
					if cold {
						p[0] = uint64(i)
					}
					n := size + i/len(prompts)*16%64 // the next turn adds 512 tokens
					turn(p[:n])
				}
			})
		}
	}
}

// BenchmarkNewPrompt is a prompt that nobody knows, in a table that such prompts have filled.
func BenchmarkNewPrompt(b *testing.B) {
	table, now := turns.New(1), int64(0)
	prompt, prefixes := units(1, 16), make([]uint64, 0, 16)
	turn := func() {
		now++
		prompt[0]++
		prefixes = turns.AppendPrefixes(prefixes[:0], table, prompt)
		f := table.Find(prefixes, 0, false)
		table.Begin(&f, prefixes, now)
		table.End(&f, now)
	}
	for range 1 << 18 {
		turn()
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		turn()
	}
}
