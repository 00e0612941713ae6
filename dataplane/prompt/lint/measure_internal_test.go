package lint

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// naiveMeasure compares every prompt with every other one and every run with every run, as words.
func naiveMeasure(group []*units) (shared []int, stable [][]bool, lost []float64) {
	words := map[*units][]string{}
	for _, u := range group {
		for i := 0; i+6 <= len(u.hash); i++ {
			words[u] = append(words[u], fmt.Sprint(u.hash[i:i+6]))
		}
	}
	for i, u := range group {
		most := 0
		for k, v := range group {
			n := 0
			for k != i && n < len(u.hash) && n < len(v.hash) && u.hash[n] == v.hash[n] {
				n++
			}
			most = max(most, n)
		}
		in := make([]bool, len(u.hash))
		for j, word := range words[u] {
			with := 0
			for _, v := range group {
				if slices.Contains(words[v], word) {
					with++
				}
			}
			for k := j; 10*with >= 9*len(group) && k < j+6; k++ {
				in[k] = true
			}
		}
		keep := make([]bool, len(in))
		sum := 0.0
		for j := range in {
			before, after := 0, 0
			for j-before-1 >= 0 && in[j-before-1] {
				before++
			}
			for j+after+1 < len(in) && in[j+after+1] {
				after++
			}
			if keep[j] = in[j] && before+1+after >= 16; keep[j] && j >= most {
				sum += float64(u.IDsTokens)
			}
		}
		shared, stable, lost = append(shared, most), append(stable, keep), append(lost, sum)
	}
	return shared, stable, lost
}

// fuzzGroup makes prompts of pieces that some of them share.
func fuzzGroup(script []byte) []*units {
	var group []*units
	var ids []uint64
	end := func() {
		if len(group) < 10 {
			group = append(group, newUnits(&Prompt{IDs: ids, IDsTokens: 2}))
		}
		ids = nil
	}
	for i, b := range script {
		piece := uint64(b >> 4)
		if piece > 12 { // a piece of no other prompt
			piece = uint64(1000 + i)
		}
		for k := range int(b & 15 * 2) {
			if len(ids) < 90 {
				ids = append(ids, piece*100+uint64(k))
			}
		}
		if b%7 == 0 {
			end()
		}
	}
	end()
	return group
}

func FuzzMeasureAgainstNaive(f *testing.F) {
	f.Add([]byte{0x1f, 0xd5, 0x2f, 0x0e, 0x1f, 0xd5, 0x2f, 0x0e, 0x1f, 0xd5, 0x2f, 0x0e})
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 9))
		script := make([]byte, 60)
		for i := range script {
			script[i] = byte(rng.Uint32())
		}
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 100 {
			return
		}
		group := fuzzGroup(script)
		shared, stable, lost := naiveMeasure(group)
		for i, m := range measure(group) {
			require.Equal(t, shared[i], m.shared, "beginning of prompt %d", i)
			require.Equal(t, stable[i], m.stable, "stable units of prompt %d", i)
			require.InDelta(t, lost[i], m.lost, 1e-9, "lost tokens of prompt %d", i)
			from, to := m.change()
			require.True(t, from <= m.shared && m.shared <= to && to <= len(m.hash), "change %d..%d around %d", from, to, m.shared)
		}
	})
}

// FuzzParse feeds anything to Parse and Check: the parts of text that a prompt is cut into are the
// prompt, and shares are shares.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"system","content":"It is 10:32. Écoute 你好 \ud83d\ude00"},{"role":"user","content":[{"type":"text","text":"a"}]}]}`))
	f.Add([]byte(`{"prompt":"\u0000 a1b2 ` + "\t" + `"}`))
	f.Add([]byte(`{"hash_ids":[1,2,3],"block_size":16}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := Parse(body)
		if err != nil {
			require.ErrorIs(t, err, ErrBody)
			return
		}
		u := newUnits(p)
		require.Len(t, u.ends, len(u.hash))
		if len(p.IDs) == 0 && len(u.hash) < maxUnits {
			var whole strings.Builder
			for _, part := range p.Parts {
				whole.WriteString(part.Text)
			}
			require.Equal(t, whole.String(), u.excerpt(0, len(u.hash)))
		}
		r := Check([]*Prompt{p, p, p})
		require.True(t, r.Now >= 0 && r.Now <= r.Then+1e-9 && r.Then <= 1+1e-9, "shares %v and %v", r.Now, r.Then)
		_, err = json.Marshal(r)
		require.NoError(t, err)
	})
}
