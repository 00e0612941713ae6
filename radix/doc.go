// Package radix is the block index: the holders of each prompt's leading blocks, and the format of
// its snapshots.
//
// # Structure
//
// A prompt is a chain of blocks, and the block hash of a block covers its own tokens alone. The
// chains that workers hold form a compressed radix tree. A run is a stretch of consecutive
// blocks in one piece of memory. Children hang at any offset of a run, so a run is never split.
// The child table leads from (run, offset, block hash) to the child.
//
// A worker that holds a part of a run has one holding there: a bit per block and tier. Engines
// name blocks by engine hashes, in removals and as parents. A run lists the engine hash by
// which each block was first stored, and the block table maps these engine hashes to their
// blocks, for all workers. A worker's only copy of a block in a tier, under the listed engine
// hash, costs one bit. All other copies (second copies, other engine hashes, aliases) are
// entries in a table of the worker.
//
//	file              content
//	index.go          Index, Config: all writes
//	match.go          look-ups; lazy_chain.go hashes the prompt on the way
//	hash.go           tokens to block hashes; hash_pieces.go is the reference of hash_*.s
//	domain.go         domains: model, block size, LoRA adapter, salt
//	tree.go           tables and runs together: growing, linking and freeing runs
//	run.go            a run; run_view.go the part that look-ups read
//	holder_slots.go   the holders of a run; coverage.go the word that look-ups read of each
//	child_table.go    (run, offset, block hash) to child run
//	block_table.go    engine hash to block for all workers; block_table_sweep.go drops stale slots
//	run_registry.go   handles of runs, for slots of the block table and the clock hand
//	workers.go        worker ids; worker.go one worker
//	holdings.go       the holdings of one worker; holding.go one of them
//	entry_table.go    engine hash to block and copies for one worker
//	alias.go          an engine hash of blocks in several domains
//	store.go          one Store call; remove.go one Remove call
//	budget.go         the memory budget; evict.go the eviction; bytes.go the sizes
//	prediction.go     a prediction; prediction_tree.go the tree of all
//	snapshot_write.go index to file; snapshot_read.go file to index
//	invariant.go      checks that -tags invariants turns on
//
// # Semantics
//
// A block counts for a worker while at least one copy is in any tier. Copies are counted per
// worker, tier and engine hash: a block stored twice needs two removals. [Index.Match] counts
// leading blocks: a missing block in the middle (a hole) ends the count, and storing it again
// makes the tail count again.
//
// A parent is a block that the worker holds in some tier at that moment. A parent whose last
// copy is gone is unknown, even if the worker holds blocks behind it: its engine hash no longer
// tells the position of the child. Refusing the store, after which the caller resyncs the
// worker, can only credit too little.
//
// A block goes behind its parent and so into the parent's domain. The store's domain only
// selects among several blocks of an aliased parent.
//
// An engine hash has one block in a domain. Stored again with other content or another parent,
// it moves, and the copies of the older block are removed at once. Two removals then find one
// copy, and the second counts as unknown; no missing block is credited.
//
// An engine hash may have a block in each of several domains, because SGLang's hash leaves the
// LoRA adapter out. A removal does not tell the domain, so it counts against all blocks: a
// block is credited while it has more copies than there were removals. All stay known as
// parents until removals equal copies. An aliased parent without a block in the store's domain
// is unknown.
//
// # Predictions
//
// A [Prediction] is a chain that a worker will soon hold, because a request was sent to it. It
// begins with the first block. [Index.MatchPredicted] finds it; Match does not. It stands until
// its maker forgets it, after an event or a deadline, and is confirmed when the worker is known
// to hold the blocks before any event tells. Predictions have a tree of their own, of runs
// without holdings and engine hashes, so predictions and events never wait for each other. A
// [Scope] stands for the domain and costs no memory, so requests with new keys leave nothing
// behind.
//
// # Memory
//
// [Config].MaxBytes bounds the memory of blocks held. A store reserves its memory before it
// begins, and evicts if the reservation does not fit. The live heap is counted, unused capacity
// included: within 2 % of the runtime's numbers on the workloads of bench/index, and 11 % above
// them where many engine hashes are aliases. Garbage is the collector's; predictions have a bound
// of their own.
//
// Eviction is a CLOCK over the runs. Look-ups and stores that come through a run set its
// reference bit: a load, or a store to a cache line that they read anyway. The hand clears the
// bit, and evicts a run that it finds without the bit and without children, for all workers at
// once. So a chain keeps its beginning, shared prompts stay longest, and unused prompts are
// gone after one turn. A new run has no reference bit: to be stored once is no use.
//
// Eviction removes knowledge only; the worker still has the blocks and publishes more. It is
// [Index.Partial] until it is cleared: unknown removals are to be expected, and a store behind
// an evicted parent fails with [ErrBudget], as does a store that does not fit.
// [ErrUnknownParent] is for workers without evictions. Such a store's engine hashes are removed
// wherever the worker holds them, because they may be other blocks now. So the index never
// credits a block that an unbounded index would not credit.
//
// A domain without blocks is freed when 1,024 others have become idle after it, so tenants that
// come and go leave nothing.
//
// # Concurrency
//
// All methods may be called from any goroutine. Writers lock a worker (its entries), a run, and
// a stripe of the child table; none of these depends on the first block of a prompt. Inserts
// into the block table take one lock for 64 engine hashes. Lock order:
//
//	workerTable.mu                   (alone)
//	evictor.mu > worker.mu           (so a store reserves before it locks)
//	worker.mu > run.mu > stripe.mu   (never two of one kind)
//	worker.mu > domainTable.mu > run.mu  (of a root)
//	run.mu > blockTable.sweepMu > insertMu > all read locks in order
//	run.mu > insertMu, runRegistry.mu or one read lock
//	Prediction.mu > run.mu or predictionTree.mu > stripe.mu
//
// Look-ups take no lock. They rely on these rules:
//
//   - The hash at an offset of a run never changes. A run grows by publishing a larger number
//     of blocks, in the same view or a copy. A trimmed run is sealed, so an offset never gets
//     other content.
//   - The coverage of a run by a holder is one 64-bit word: worker, leading blocks in any tier,
//     leading blocks on the GPU.
//   - The collector frees unlinked runs, so a look-up may finish on one; its words say that it
//     has no holder.
//
// A look-up beside writers sees the holdings of each run as they were at some moment of the
// call, not all of one moment. It is exact for a worker without writes meanwhile.
//
// # Ownership
//
// The index keeps no slice of a caller. Match, MatchTokens and AppendHashes append to the given
// slices and allocate only if these are too small.
//
// # Errors
//
// A failed [Index.Store] changes nothing but a counter: see [ErrUnknownParent],
// [ErrUnknownWorker], [ErrUnknownDomain], [ErrUnknownTier] and [ErrMismatch]. [ErrBudget] is
// the exception: blocks have gone.
package radix
