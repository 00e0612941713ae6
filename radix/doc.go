// Package radix is the block index: which worker holds which leading blocks of a prompt.
//
// A prompt is a chain of blocks of tokens and each block is one [Hash]. The chains that workers hold form a path-compressed
// radix tree: a run is a stretch of block hashes without pointers, children hang at any offset of it, so nothing is ever split,
// and each worker that holds a part of a run has one hold there: a bit per block and tier. Workers name blocks by hashes of
// their own ("engine hashes") in removals and parents. A run lists the one that each block was first stored by, and one table for all
// workers maps these names to places: who holds a block once by its name has a bit and nothing else. All other ways of holding
// (second copies, other names, aliases) are entries in a table of the worker's own.
//
//	file           job
//	index.go       Index, Config
//	hash.go        tokens to block hashes; hash_pieces.go says what the assembly of hash_*.s must equal
//	tokens.go      a look-up that hashes only as far as it matches
//	domain.go      model, block size, LoRA and salt that keep chains apart
//	worker.go      who holds: ids, their reuse, dropping all that one holds
//	places.go      engine hash to place for all workers; places_amd64.s claims a row of them, a cache line at a glance
//	sweep.go       the claims that were given up, dropped from it
//	names.go       the names that a run lists, and its claims to places
//	engine.go      a worker's table: engine hash to place and copies per tier, where a bit in a hold does not tell it all
//	alias.go       an engine hash that names a block in more than one domain
//	run.go         a stretch of blocks: extending, trimming, dying
//	face.go        what look-ups read of a run, in one piece of memory
//	hold.go        what one worker holds of one run
//	lead.go        the part of all holds that look-ups read
//	children.go    (run, offset, hash) to the run that continues there
//	predict.go      what workers are about to hold, in a tree apart
//	store.go, remove.go, match.go, stats.go, dump.go
//	weigh.go       what all of that takes, counted as it comes and goes
//	budget.go      the bound of it: room is reserved before blocks are stored
//	evict.go       who goes when there is none
//	snapshot*.go   what workers hold, to a file and back
//	invariant.go   checks that -tags invariants turns on
//
// # Semantics
//
// A block counts for a worker while at least one copy of it is there in any tier. Copies are counted per worker, tier and engine
// hash: stored twice, it needs two removals. [Index.Match] counts leading blocks only: a missing block in the middle (a hole) cuts the
// count, and storing it again makes the tail count again.
//
// A parent must be a block that the worker holds in some tier at that moment. One whose last copy is gone is unknown, even while
// blocks behind it are still there: the engine hash no longer says where the child belongs, and to refuse (the caller then
// resyncs the worker) can only credit too little.
//
// With a parent, a block goes behind the parent's place and so into its domain; the store's domain only picks among several places.
//
// An engine hash has one place in a domain. Stored at another one (other content or parent) it moves: the copies at the older place
// are released at once. Two removals then find one copy, and the second counts as unknown; nothing is credited that may be gone.
//
// It may have a place in each of several domains (SGLang's hash leaves the LoRA adapter out). A removal does not tell which it means, so
// it counts against all of them: a place is credited while it has more copies than there were removals. All stay known as parents until
// removals equal copies; a parent with several places, none of them in the store's domain, is unknown.
//
// # Predictions
//
// What a worker is about to hold, because a request was sent to it, is a [Prediction]: a chain from the first block on, which
// [Index.Foresee] finds and Match does not. It stands until it is forgotten, for which its maker needs a reason and a deadline; it is settled
// once the worker is known to hold it, before any event says so. Predictions are in a tree of their own, made of the same runs without holds
// and names: so they never wait for events nor events for them, and those cut no run where only a prediction ended. A domain has a [Scope]
// for them, which costs no memory, so that requests with keys of their own leave nothing behind.
//
// # Memory
//
// [Config].MaxBytes bounds what is held by events, at insert: a store reserves what it may take before it begins, and where that does
// not fit, it evicts first. Counted is the live heap, with what idles in it: within 2 % of the runtime's numbers on the workloads of
// bench/index, and 11 % too much on churn, which is full of aliases. Garbage is the collector's, and predictions have a bound of their own.
//
// What is wanted least goes. A clock's hand goes round over all runs; whoever comes through a run, by a look-up or a store that finds it,
// sets a mark in it, which costs a load, or a store to a line that is at hand where the hand was there since. The hand takes the mark away,
// and what it finds without one goes, for all workers at once, if it has no children. So what stays of a chain is always its beginning,
// what many use stays longest, and prompts that nobody comes back to are gone in a turn. A new run has no mark: to be stored once is not to be
// wanted.
//
// What is evicted is knowledge only: the worker has the blocks and goes on to tell of them. It is [Index.Partial] from then on until it is
// cleared: removals that find nothing are to be expected, and a store behind a parent that is not there fails with [ErrBudget], as one that
// does not fit does; [ErrUnknownParent] is for workers that nothing was taken from. The names of such a store are given up where they are
// held, as they may be other blocks now. So nothing is ever credited that an index without a bound would not credit.
//
// A domain without blocks is freed when 1,024 others have come to that since, so tenants that come and go leave nothing.
//
// # Concurrency
//
// Every method may be called from any goroutine. Writers are striped three ways, none of which depends on a prompt's first block:
// a mutex per worker (its engine table), a mutex per run, and a mutex per stripe of the child table. Names are claimed under
// one for all, 64 at a time. Lock order:
//
//	Index.mu                        (alone)
//	worker.mu > run.mu > stripe.mu  (never two of one kind)
//	Prediction.mu > run.mu or foretold.mu > stripe.mu  (of the tree of predictions)
//	            run.mu > places.sweeping > places.filling > all places.gates in order
//	            run.mu > places.filling, places.mu or one of places.gates
//	budget.mu > worker.mu           (so who stores reserves before it locks)
//	worker.mu > domains.mu > run.mu (of a root)
//
// Look-ups take no lock at all. They rely on these rules:
//
//   - The hash at an offset of a run never changes. A run grows by publishing a larger number of blocks of the same face or of a
//     copy, and one that was trimmed is sealed, so that an offset is never given to other content.
//   - What a hold covers is one 64-bit word: worker, leading blocks in any tier, leading blocks on the GPU.
//   - Unlinked runs are left to the garbage collector, so a look-up may finish on one; its words say that nobody holds anything.
//
// A look-up that runs beside writers sees each run's part of each worker as it was at some moment during the call, not all
// at one moment. A worker that nobody writes to meanwhile is always answered exactly.
//
// # Ownership
//
// No slice that is passed in is kept. Match, MatchTokens and AppendHashes append to what they are given and allocate only when that is
// too small.
//
// # Errors
//
// A failed [Index.Store] has changed nothing but a counter: see [ErrUnknownParent], [ErrUnknownWorker], [ErrUnknownDomain],
// [ErrUnknownTier] and [ErrMismatch]. With [ErrBudget] blocks have gone.
package radix
