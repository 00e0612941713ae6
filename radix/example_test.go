package radix_test

import (
	"fmt"
	"os"

	"github.com/warmpath/warmpath/radix"
)

// A worker publishes its blocks; a look-up has the tokens of a prompt.
func Example() {
	x := radix.New(radix.Config{})
	d := x.Domain(radix.DomainKey{Model: "qwen", BlockSize: 4})
	w := x.AddWorker()

	cached := []uint32{1, 2, 3, 4, 5, 6, 7, 8}
	err := x.Store(radix.Store{
		Worker: w,
		Domain: d,
		Engine: []uint64{0xa, 0xb}, // engine hashes, which removals use
		Blocks: x.AppendHashes(nil, cached, 4),
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	prompt := []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}
	chain := x.AppendHashes(nil, prompt, 4)
	for _, o := range x.Match(nil, d, chain) {
		fmt.Printf("worker %d holds %d of %d blocks\n", o.Worker, o.Blocks, len(chain))
	}
	// Output:
	// worker 0 holds 2 of 3 blocks
}

// A block that left the GPU may still be in host memory.
func ExampleIndex_Remove() {
	x := radix.New(radix.Config{})
	d := x.Domain(radix.DomainKey{})
	w := x.AddWorker()
	engine, blocks := []uint64{1, 2}, []radix.Hash{10, 20}
	for _, tier := range []radix.Tier{radix.TierGPU, radix.TierCPU} {
		if err := x.Store(radix.Store{Worker: w, Domain: d, Tier: tier, Engine: engine, Blocks: blocks}); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("unknown:", x.Remove(w, radix.TierGPU, []uint64{2, 3}))
	fmt.Printf("%+v\n", x.Match(nil, d, blocks))
	// Output:
	// unknown: 1
	// [{Worker:0 Blocks:2 GPU:1}]
}

func ExampleIndex_Dump() {
	x := radix.New(radix.Config{})
	d := x.Domain(radix.DomainKey{Model: "qwen", BlockSize: 16})
	for _, tail := range []radix.Hash{30, 31} {
		w := x.AddWorker()
		_ = x.Store(radix.Store{Worker: w, Domain: d, Engine: []uint64{1, 2, uint64(tail)}, Blocks: []radix.Hash{10, 20, tail}})
	}
	x.Remove(1, radix.TierGPU, []uint64{2})
	x.Dump(os.Stdout, 100)
	// Output:
	// domain 0 model="qwen" block=16 lora="" salt="" bigram=false
	// └─ @0 3 blocks 000000000000000a w0:3/3 w1:1/1
	//    └─ @2 1 blocks 000000000000001f w1:1/1
}
