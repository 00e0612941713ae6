package kvevent_test

import (
	"fmt"

	"github.com/warmpath/warmpath/zmq/kvevent"
)

func ExampleBatch_Decode() {
	tokens := []uint32{10, 11, 12, 13, 14, 15, 16, 17}
	chain := kvevent.NewChain("")
	payload := kvevent.Append(nil, &kvevent.Batch{
		Time: 1763700000.25, HasRank: true,
		Events: []kvevent.Event{{
			Kind: kvevent.Stored, Medium: kvevent.MediumGPU, Tokens: tokens, BlockSize: 4,
			Hashes: []uint64{chain.Next(tokens[:4]), chain.Next(tokens[4:])},
		}},
	}, kvevent.SGLang0523)

	var b kvevent.Batch // Keep it: decoding into a used Batch does not allocate.
	if err := b.Decode(payload); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", kvevent.AppendJSON(nil, &b))
	// Output:
	// {"ts":1763700000.25,"rank":0,"events":[{"type":"BlockStored","block_hashes":[5428511633061281808,-13757886277339546],"token_ids":[10,11,12,13,14,15,16,17],"block_size":4,"medium":"GPU"}]}
}

func ExampleChain() {
	c := kvevent.NewChain("tenant-a")
	fmt.Println(int64(c.Next([]uint32{10, 11, 12, 13})))
	later := kvevent.ContinueChain(c.Digest()) // Somewhere else, some other time.
	fmt.Println(int64(later.Next([]uint32{14, 15, 16, 17})))
	// Output:
	// -6161945641152110075
	// -895011993878626336
}
