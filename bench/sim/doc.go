// Package sim runs simulated SGLang workers: real HTTP and ZMQ sockets and a real
// prefix cache in front of a model that takes time and makes up words. A router, a
// load generator or a person with curl can use one like an engine; the shapes of its
// answers are compared with those of a real one in the tests.
//
// # What is simulated, and how
//
// Cache. A radix tree over whole pages, path-compressed as SGLang's is. A prompt of n
// tokens finds at most floor((n−1)/page) pages: one token is always computed. Prompt
// pages enter the tree when their prefill batch is done, the answer's when the
// request ends: with m generated tokens the first floor((n+m−1)/page) pages are then
// cached. Running requests lock their path; of the other leaves the least recently used goes
// first, a whole leaf at a time.
//
// Scheduler. One per data-parallel rank: first come, first served; a request waits
// until the pool can promise pages for its prompt and its whole answer (the simulator
// knows how long that will be, so nothing is ever retracted); at most MaxRunning run.
// Prefill goes before decode; a batch has at most ChunkedPrefill new tokens, and a longer
// prompt is cut at a page and goes on in the next batch.
//
// Service time. With b running requests of c tokens of context in all:
//
//	prefill batch of n new tokens:  PrefillBase + n / PrefillTokensPerSecond
//	decode step:                    DecodeBase + b·DecodePerRequest + c·DecodePerToken
//
// The defaults are one node of 8 H100 80 GB that serves a dense 70-billion-parameter
// model in 16 bits at tensor parallelism 8. Prefill: 140 TFLOP a 1,000 tokens at
// 28 % of 7.9 PFLOP/s, 16,000 tokens/s. Decode: 140 GB of weights over 26.8 TB/s
// are 5.2 ms, 14 ms with communication and launches; 320 KB of KV a token at 70 % of that
// bandwidth are 17 ns. Pool: 640 GB − 140 GB of weights and a margin leave room for
// 1,000,000 tokens and more, of which 1,000,000 are taken.
//
// TimeScale divides every wait. What a client can see (rates, busy times, stamps) is in
// the client's time: a worker at time scale 10 looks like an engine ten times as fast.
//
// Events. SGLang's exact bytes in the encoding asked for, published when SGLang
// publishes them: after each prefill batch, after each 40th decode step, and when the
// rank falls idle. Sequence 0 is AllBlocksCleared. Load messages go out on change and at
// least once a second.
//
// Text. The vocabulary is made up (see vocabulary.go): text to ids and back is lossless,
// and what the model says becomes the same ids again when a chat sends it back. An
// answer's words and length depend on the prompt alone.
//
// Pairs. With [Config].Mode a worker is one half of a pair, as SGLang with
// --disaggregation-mode: a request that names a bootstrap server and a room goes to a
// prefill and a decode worker at once. The prefill leg waits until the decode worker has
// pages and has come to its room (room mod DP size is the rank), is computed, and holds
// its pages until the transfer is done; then both answer: prefill with one token, decode
// with all of them. The transfer of n tokens takes n / TransferTokensPerSecond on the
// prefill rank's one link, behind those before it and beside what is computed, and
// TransferLatency. By default 125,000 tokens/s: 320 KB each over 40 GB/s, what a node with
// eight NICs of 400 Gbit/s gets at 10 %. Workers may be processes of their own: they find
// each other by the bootstrap server, see wire.go for what they say then.
//
// A leg that nobody meets fails with status 500 after BootstrapTimeout or WaitingTimeout,
// one without a room with 400, in SGLang's words. As there, a decode leg learns of a dead
// prefill worker by two missed heartbeats (10 to 15 s) and of an aborted prefill leg not
// at all; a prefill leg learns of a decode leg's end at once if it was told, else when it
// sends. What SGLang's bootstrap server answers, this one does.
//
// Log probabilities are made of a token and the one before it, so that an answer has the
// same ones whoever computes it: those of the prompt by the prefill leg, those of the
// answer by the decode leg.
//
// Known differences: log probabilities mean nothing; a leg that fails ends the others of
// its batch, which SGLang computes for nobody; tools are rendered into the prompt
// but never called; no speculative decoding, no sessions, no host tier of the cache;
// token ids outside the vocabulary and empty prompts get status 400, where SGLang 0.5.23
// dies of both, unless [Faults.DieOf] asks for that of ids; while a worker hangs, its replay socket still answers; every LoRA
// name is taken for a loaded adapter.
//
// Memory: a rank's tree is at most CachePages × (4·PageSize + 32) bytes, 6 MB by default;
// the replay buffer keeps BufferSteps batches of 3 bytes a stored token, so 10,000
// prompts of 12,000 new tokens would be 400 MB a rank.
//
// # Concurrency
//
// All exported methods may be called from any goroutine, except that [Worker.Run]
// may be called once, and not together with [Worker.Close]. A rank's cache and queues belong to
// the one goroutine that runs it; others hand it functions (rank.do). A decode leg has a
// goroutine that waits for its keys and values, and a prefill worker two for each
// connection of one; all end with their leg or with the worker. A request's answer
// is guarded by its own mutex. Locks, none held while another is taken: request.mu,
// rank.inboxMu, rank.snapMu, Faults.mu, registry.mu, requestCounts.mu, listener.mu,
// desk.mu, rooms.mu, routeTable.mu, peers.mu, peer.mu.
//
// # Ownership
//
// Prompts are copied into the tree. Payloads handed to a publisher are copied by it.
//
// # Errors
//
// [ErrConfig] from [New], [ErrFault] from [Faults.Apply].
package sim
