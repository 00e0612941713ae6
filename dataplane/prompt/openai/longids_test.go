package openai_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// longBody is a request with n ids from first on.
func longBody(first, n int, separator string) []byte {
	body := []byte(`{"input_ids":[`)
	for i := range n {
		if i > 0 {
			body = append(body, separator...)
		}
		body = strconv.AppendInt(body, int64(first+i), 10)
	}
	return append(body, "]}"...)
}

// TestLongPrompts: the memory of prompts that are too long to stay with a Request is used again, by
// one at a time.
func TestLongPrompts(t *testing.T) {
	const n = 600_000
	var a, b openai.Request
	for round := range 3 {
		for i, r := range []*openai.Request{&a, &b} {
			// Short numbers are more than their length lets expect, with and without spaces.
			first := []int{10, 100_000}[(round+i)%2]
			if err := r.Parse(openai.APIGenerate, longBody(first, n+round, []string{",", ", "}[i])); err != nil {
				t.Fatal(err)
			}
		}
		for i, r := range []*openai.Request{&a, &b} {
			first := []int{10, 100_000}[(round+i)%2]
			require.Len(t, r.InputIDs, n+round)
			for k, id := range r.InputIDs {
				if id != uint32(first+k) {
					t.Fatalf("round %d: id %d is %d, want %d", round, k, id, first+k)
				}
			}
		}
		if round == 1 {
			a.Reset()
			b.Reset()
			require.Zero(t, cap(a.InputIDs)+cap(b.InputIDs), "what long prompts took stays with a Request")
		}
	}
}
