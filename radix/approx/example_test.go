package approx_test

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/warmpath/warmpath/radix/approx"
)

// A worker without events is known by the requests sent to it.
func Example() {
	tree := approx.New(approx.Config{})
	const w = approx.Worker(0)
	tree.AddWorker(w, 0)
	d := tree.Domain("qwen")

	system := bytes.Repeat([]byte("You are a careful assistant. "), 40) // 1,160 bytes
	first := tree.AppendText(nil, d, append(slices.Clip(system), "What is a radix tree?"...))
	sent := tree.Insert(w, first)
	tree.Correct(w, first, sent, 0) // its answer: nothing was cached

	second := tree.AppendText(nil, d, append(slices.Clip(system), "What is a heap?"...))
	for _, o := range tree.Match(nil, second) {
		fmt.Printf("worker %d is believed to hold %d of %d units\n", o.Worker, o.Units, len(second))
	}
	// Output:
	// worker 0 is believed to hold 9 of 9 units
}

// An answer with fewer cached units than proven before shows that the engine has evicted, and
// its capacity.
func ExampleTree_Correct() {
	tree := approx.New(approx.Config{})
	const w = approx.Worker(0)
	tree.AddWorker(w, 0)
	ask := func(prompt uint32, cached int) {
		tokens := make([]uint32, 1600)
		for i := range tokens {
			tokens[i] = prompt
		}
		chain := tree.AppendTokens(nil, 0, tokens)
		tree.Correct(w, chain, tree.Insert(w, chain), cached)
		fmt.Printf("prompt %d: %+v\n", prompt, tree.Worker(w))
	}
	for prompt := range uint32(4) {
		ask(prompt, 0)
	}
	ask(1, 0) // prompts 0 and 1 were evicted
	// Output:
	// prompt 0: {Units:100 Capacity:0}
	// prompt 1: {Units:200 Capacity:0}
	// prompt 2: {Units:300 Capacity:0}
	// prompt 3: {Units:400 Capacity:0}
	// prompt 1: {Units:300 Capacity:300}
}
