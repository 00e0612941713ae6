// Package approx is the approximate tree: what workers that publish no events are believed to hold, learnt from the requests that
// were sent to them and corrected by the cached_tokens of their answers.
//
// A prompt, as text or as token ids, is cut into units of fixed size, and each unit is one 64-bit [Key]. All workers share one
// path-compressed tree of keys. A node is a run of keys and the list of workers that hold all of it; where prompts part, nodes are
// split, as SGLang does. What a worker holds is closed under prefixes, so its overlap ends at the deepest node that lists it.
//
//	file        job
//	hash.go     text and tokens to keys; domains
//	tree.go     Tree, Config, Stats
//	node.go     runs of keys: finding, splitting, their holders
//	hold.go     what one worker holds of one node, and the two lists by last use
//	worker.go   ids, capacities, dropping all that one holds
//	match.go    look-up
//	insert.go   a request was sent; both bounds
//	correct.go  an answer came; what it teaches of evictions
//	withdraw.go a request failed
//	spare.go    nodes and holds that wait to be used again
//
// # How to use an overlap
//
// As a credit within one cost, the same that blocks of the exact index are credited in: prompt tokens less units times tokens of a
// unit, plus what is queued. Then there is no threshold below which the choice changes its nature (no cliff), and a prompt
// that nobody holds goes to the least loaded worker. The size of a worker's tree is no sign of load, and is not reported
// with an overlap: to send what is unknown to the smallest tree floods a worker that has just been cleared or added.
//
// # Life of a request
//
// Insert when it is dispatched, so that the next one with its prefix follows it. Correct when its answer is over and has said how much
// was cached, or with [Unreported] where it did not say. Withdraw when it failed before its answer began. A worker that was restarted
// or flushed is cleared.
//
// # Evictions of the engine
//
// Each worker has a believed capacity, configured ([Tree.SetCapacity]) or learnt: nothing is assumed until the first answer that
// contradicts an earlier one. That answer tells that the engine has evicted a part whose last use is known; as engines evict what was
// used least recently, all that was used no later is dropped too, and what remains is the capacity. It rises again slowly while
// answers agree, and faster when an engine has more than was known.
//
// # Memory
//
// [Config.MaxBytes] bounds nodes, runs, holds, workers and the child table, counted in the allocator's own size classes. It holds
// when Insert, Correct or AddWorker return; within a call one prompt more may be there: 8 bytes a unit. The heap beside it
// is what the collector has not yet freed. When the bound is reached, the leaf whose last use is the longest ago goes first, whoever
// holds it. A prompt of 64 KiB that shares nothing takes 4.3 KB. A 64th of the bound, at most, is what was
// evicted or cleared and waits to be used again, so that new prompts cost the allocator nothing; what is more goes back to the collector
// at once.
//
// A capacity holds likewise, except that a call drops at most 64 holds more than it adds units: after a capacity fell, it takes
// as many calls as there is to drop.
//
// # Concurrency
//
// Every method may be called from any goroutine. One RWMutex guards the tree; hashing is outside of it, and look-ups share it. There is
// no sharding, since no key balances it: most prompts of a cluster begin with the same units, and a shard for each worker would
// cost a look-up for each. What holds the lock is short instead: an insert holds it for one walk of its path and a copy of at
// most [Config.MaxChain] keys, and what it evicts was as large as what it adds; clearing and removing drop 64 holds at a time.
//
// # Ownership
//
// No slice that is passed in is kept. Match and the Append methods append to dst and allocate only when it is too small.
package approx
