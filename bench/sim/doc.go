// Package sim runs simulated SGLang workers: real HTTP and ZMQ sockets and a real prefix cache
// in front of a model that takes time and makes up words. A router, a load generator or a
// person with curl can use one like an engine. Tests compare the shapes of its answers with a
// real engine's.
//
// # Model
//
// Cache. A radix tree over whole pages, path-compressed like SGLang's. A prompt of n tokens finds
// at most floor((n−1)/page) pages, because the last token is always computed. Prompt pages enter
// the tree at the end of their prefill batch, pages of the answer at the end of the request: with
// m generated tokens the first floor((n+m−1)/page) pages are then cached. Running requests lock
// their path; of the other leaves the least recently used one is evicted first, as a whole.
//
// Scheduler. One for each data-parallel rank, first come, first served. A request waits until
// the pool can promise pages for its prompt and its whole answer; the simulator knows its
// length, so nothing is ever retracted. At most MaxRunning requests run. Prefill precedes
// decode. A batch has at most ChunkedPrefill new tokens; a longer prompt is cut at a page and
// continues in the next batch.
//
// Service time, with b running requests of c tokens of context in all:
//
//	prefill batch of n new tokens:  PrefillBase + n / PrefillTokensPerSecond
//	decode step:                    DecodeBase + b·DecodePerRequest + c·DecodePerToken
//
// The defaults are one node of 8 H100 80 GB with a dense model of 70 billion parameters in 16
// bits at tensor parallelism 8. Prefill: 140 TFLOP for 1,000 tokens at 28 % of 7.9 PFLOP/s,
// 16,000 tokens/s. Decode: 140 GB of weights over 26.8 TB/s take 5.2 ms, 14 ms with
// communication and launches; 320 KB of KV for each token at 70 % of that bandwidth take 17 ns.
// Pool: 640 GB − 140 GB of weights and a margin leave room for more than 1,000,000 tokens;
// 1,000,000 are used.
//
// TimeScale divides every wait. Rates, busy times and stamps are on the client's clock: a
// worker at time scale 10 looks like an engine ten times as fast.
//
// Events. SGLang's exact bytes in the configured encoding, published when SGLang publishes: after
// each prefill batch, after each 40th decode step, and when the rank becomes idle. Sequence 0 is
// AllBlocksCleared. A changed load is sent after each prefill batch, each fifth decode step and
// when the rank becomes idle, and any load at least once a second.
//
// Clients. A request is aborted after its client has closed the connection: a stream at its next
// token, any request after 4 s without progress.
//
// Text. The vocabulary is made up (vocabulary.go): text to ids and back is lossless, and a
// generated answer becomes the same ids again when a chat sends it back. Its words and length
// depend on the prompt alone.
//
// Pairs. With [PairConfig].Mode a worker is one half of a pair, like SGLang with
// --disaggregation-mode: a request with a bootstrap server and a room goes to a prefill and a
// decode worker at once. The prefill leg waits until the decode worker has pages and has
// connected to its room (room mod DP size is the rank), is computed, and holds its pages until
// the transfer is done. Then both answer: prefill with one token, decode with all of them. A
// transfer of n tokens takes n / TransferTokensPerSecond on the prefill rank's one link, after
// earlier transfers and in parallel with computing, and TransferLatency. The default of 125,000
// tokens/s is 320 KB each over 40 GB/s: a node with eight NICs of 400 Gbit/s at 10 %. Workers
// may be processes of their own: they find each other by the bootstrap server and speak the
// protocol in transfer.go.
//
// A leg without a partner fails with status 500 after BootstrapTimeout or WaitingTimeout, a leg
// without a room with 400, in SGLang's words. As in SGLang, a decode leg notices a dead prefill
// worker by two missed heartbeats (10 to 15 s) and an aborted prefill leg not at all; a prefill
// leg notices the end of a decode leg at once after an abort, otherwise when it sends. The
// bootstrap server answers as SGLang's does to decode workers and routers.
//
// Log probabilities depend on a token and the one before it, so every worker computes the same
// ones: the prefill leg those of the prompt, the decode leg those of the answer.
//
// Known differences from SGLang: log probabilities mean nothing; a leg that fails ends the
// others of its batch, which SGLang computes for nobody; tools are rendered into the prompt and
// never called; no speculative decoding, no sessions, no host tier of the cache; token ids
// outside the vocabulary and empty prompts get status 400, where SGLang 0.5.23 crashes; while a
// worker hangs, its replay socket still answers; every LoRA
// name counts as loaded.
//
// Memory: a rank's tree takes at most CachePages × (4·PageSize + 32) bytes, 6 MB by default.
// The replay buffer holds BufferSteps batches of 3 bytes for each stored token: 10,000 prompts
// of 12,000 new tokens would take 400 MB a rank.
//
// # Concurrency
//
// All exported methods may be called from any goroutine, except that [Worker.Run] may be called
// once, and not together with [Worker.Close]. A rank's cache and queues belong to the goroutine
// that runs it; other goroutines queue functions in its mailbox. A decode leg has a goroutine
// that waits for its keys and values, a prefill worker two for each connection of one; all end
// with their leg or with the worker. A request's progress has its own mutex. Locks, of which no
// two are held at once: request.mu, mailbox.mu, loadReport.mu, Faults.mu, faultTimers.mu,
// activeIDs.mu, listener.mu, roomTable.mu, usedRooms.mu,
// prefillPeers.mu, prefillPeer.mu.
//
// # Ownership
//
// Prompts are copied into the tree. Publishers copy their payloads.
//
// # Errors
//
// [ErrConfig] from [New], [ErrFault] from [Faults.Apply].
package sim
