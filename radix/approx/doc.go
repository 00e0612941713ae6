// Package approx is the approximate index: the prompts that workers without KV events are
// believed to hold. It learns from the requests sent to them, and corrects itself by the
// cached_tokens of their answers.
//
// A prompt, as text or as token ids, is cut into units of fixed size, and each unit is one
// 64-bit [Key]. All workers share one compressed tree of keys. A node is a stretch of keys and
// the list of workers that hold all of it. Where prompts diverge, nodes are split, as SGLang
// does. A worker that holds a node holds its ancestors, so a worker's overlap ends at the
// deepest node that lists it.
//
//	file           content
//	tree.go        Tree, Config, Stats, look-ups
//	learn.go       Insert, Correct, Withdraw: the life of a request
//	workers.go     workers that come and go
//	cache.go       the believed prefix cache of one worker
//	node_store.go  nodes, their holders, and the holdings
//	holding.go     one worker's holding of one node, and the two lists by last use
//	hash.go        text and tokens to keys; domains
//	free_list.go   nodes and holdings for reuse
//
// # How to use an overlap
//
// As a credit within one cost, like the overlap of the exact index: prompt tokens minus units
// times tokens of a unit, plus the queued tokens. Then no threshold changes the nature of the
// choice, and a prompt that no worker holds goes to the least loaded one. The size of a
// worker's part of the tree is no sign of load: sending unknown prompts to the smallest part
// floods a worker that was just cleared or added.
//
// # Life of a request
//
// Insert it when it is dispatched, so that the next request with its prefix follows it. Correct
// it when its answer is over, with the number of cached units, or [Unreported]. Withdraw it if
// it failed before its answer began. Clear a worker that was restarted or flushed.
//
// # Evictions of the engine
//
// Each worker has a believed capacity, configured ([Tree.AddWorker]) or learnt. Nothing is
// assumed until an answer contradicts an earlier one: the engine has evicted a part whose last
// use is known. Engines evict by last use, so all that was used no later is dropped, and the
// rest is the capacity. It rises slowly while answers agree, and faster if an engine has more
// than expected.
//
// # Memory
//
// [Config.MaxBytes] bounds nodes, holdings, workers and the child table, counted in the
// allocator's size classes. It holds when Insert, Correct and AddWorker return; within a call
// one more prompt may be there, 8 bytes a unit. The garbage of the heap comes on top. At the
// bound the least recently used leaf is evicted, of whichever worker. A prompt of 64 KiB
// without a common prefix takes 4.3 KB. Evicted and cleared parts wait for reuse, in at most a
// 64th of the bound, so new prompts allocate nothing.
//
// A capacity holds likewise, but a call drops at most 64 holdings more than it adds units: a
// capacity that has fallen takes several calls to be reached.
//
// # Concurrency
//
// All methods may be called from any goroutine. One RWMutex guards the tree; look-ups share it,
// and hashing needs none. Shards would not help: most prompts of a cluster begin with the same
// units, and a shard per worker costs a look-up per worker. So each critical section is short:
// an insert walks one path and copies at most [Config.MaxChain] keys, and evicts about as much
// as it adds; Clear and RemoveWorker drop 64 holdings at a time.
//
// # Ownership
//
// The tree keeps no slice of a caller. Match and the Append methods append to dst and allocate
// only if it is too small.
package approx
