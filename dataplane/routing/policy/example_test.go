package policy_test

import (
	"fmt"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// A rank that holds most of the prompt wins although it has work, until that work takes longer
// than the prefill that it saves.
func Example() {
	kv, err := policy.New("kv", policy.Defaults)
	if err != nil {
		panic(err)
	}
	prompt := policy.Request{Tokens: 8000, Exact: true}
	for _, pending := range []int64{2000, 20000} {
		ranks := []policy.Candidate{
			{Cached: 7000, Pending: pending, InFlight: 1, Rate: 10000}, // warm and busy
			{Rate: 10000}, // cold and idle
		}
		choice := kv.Pick(prompt, ranks)
		fmt.Printf("%d tokens before it: rank %d, %s\n", pending, choice.Index, choice.Why)
	}
	// Output:
	// 2000 tokens before it: rank 0, lowest predicted time to first token
	// 20000 tokens before it: rank 1, lowest predicted time to first token
}
