package openai_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

func TestOutputScanner(t *testing.T) {
	tests := []struct {
		name, answer string
		sse          bool
		want         []uint32
	}{
		{name: "JSON", answer: `{"text":"a","output_ids":[1,22, 333],"meta_info":{}}`, want: []uint32{1, 22, 333}},
		{name: "none", answer: `{"text":"a"}`},
		{name: "empty list", answer: `{"output_ids":[]}`},
		{name: "null", answer: `{"output_ids":null}`},
		{name: "cut short", answer: `{"output_ids":[1,2`},
		{name: "quoted in a text", answer: `{"text":"\"output_ids\":[9]","output_ids":[7]}`, want: []uint32{7}},
		{
			name: "SSE, ids so far", sse: true, want: []uint32{1, 2, 3},
			answer: "data: {\"output_ids\":[1]}\n\ndata: {\"output_ids\":[1,2,3],\"meta_info\":{}}\n\ndata: [DONE]\n\n",
		},
		{name: "SSE without ids", sse: true, answer: "data: {\"text\":\"a\"}\n\ndata: [DONE]\n\n"},
		{name: "too large", answer: `{"text":"` + strings.Repeat("x", 300<<10) + `","output_ids":[1]}`},
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var s openai.OutputScanner
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for range 50 {
				s.Reset(tt.sse)
				for rest := tt.answer; rest != ""; {
					n := 1 + rng.IntN(min(len(rest), 40000))
					if _, err := s.Write([]byte(rest[:n])); err != nil {
						t.Fatal(err)
					}
					rest = rest[n:]
				}
				if got := s.AppendIDs(nil); !slices.Equal(got, tt.want) {
					t.Fatalf("AppendIDs = %v, want %v", got, tt.want)
				}
			}
		})
	}
}

// Any ids in an answer are read, however its bytes are cut.
func FuzzOutputScanner(f *testing.F) {
	f.Add(uint64(1), uint16(3), true)
	f.Fuzz(func(t *testing.T, seed uint64, count uint16, sse bool) {
		rng := rand.New(rand.NewPCG(seed, 1))
		want := make([]uint32, count%2000)
		text := make([]string, len(want))
		for i := range want {
			want[i] = rng.Uint32()
			text[i] = strconv.FormatUint(uint64(want[i]), 10)
		}
		answer := `{"text":"\n\"output_ids\":[5]","output_ids":[` + strings.Join(text, ",") + `]}`
		if sse {
			answer = "data: {\"output_ids\":[1]}\n\ndata: " + answer + "\n\ndata: [DONE]\n\n"
		}
		var s openai.OutputScanner
		s.Reset(sse)
		for rest := answer; rest != ""; {
			n := 1 + rng.IntN(len(rest))
			_, _ = s.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		if got := s.AppendIDs(nil); !slices.Equal(got, want) && len(want) > 0 {
			t.Fatalf("AppendIDs gave %d ids, want %d", len(got), len(want))
		}
	})
}
