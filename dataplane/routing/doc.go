// Package routing decides where a request goes: it hashes prompt tokens into blocks, finds the
// overlap of each rank in the index, and lets the policy pick.
//
// Facts go into a choice (facts.go), and a Decision comes out. A Scratch keeps the names of the
// prompt's beginnings until its request ends (scratch.go). Four parts supply the facts, each with
// its own state and lock:
//
//   - Eligible: ranks that may take the request, by role, fitness and adapter (eligible.go).
//   - matcher: overlap by the ranks' KV events (match.go), and predictions of blocks that
//     requests in flight are about to compute, which no event tells of yet (predict.go).
//   - ApproxIndex: overlap by answers and dispatches, for ranks without events and prompts
//     without token ids (approx.go).
//   - TierDirectory: blocks in the KV tiers of nodes, with measured links between nodes
//     (tiers.go).
//
// Known overlap is credited by its trust (worker.Trust), and load is the last report of a rank
// with the requests sent since (worker.Load). Router.Explain returns the same choice with all
// its facts.
//
// Where prefill and decode workers serve a model, a decision names a pair: Rank computes the
// prompt, Decode generates. Where regular workers serve it too, short prompts and prompts
// that are faster there go to one rank alone (pair.go).
//
// KnownSessions (known.go) finds the session of each prompt by its name or its beginning (package
// turns), and knows the rank of its pages and how likely it comes back (package session). So each
// candidate has the tokens that other sessions will need again there. That is knowledge for the
// cost: a session goes where the cost is least, and only policy.Sticky keeps one on its rank.
//
// Facts about GPUs exclude ranks or weigh them (fitness.go). They never exclude all: then the
// least bad ranks are candidates, and the Decision says so.
//
// With several routers, each tells the others of its prompts (peer.go), and those that the others
// have sent are predictions too (shared.go). A router knows the sessions of its own requests, and
// a session that is new to it is found there by its next turn.
//
// Package routing knows nothing of HTTP. A Decision has all that explains it afterwards.
//
// # Predictions
//
// Blocks that requests in flight are about to compute are predictions (predict.go), in a tree apart
// from the index. From dispatch on a prompt's whole pages are predicted: prompts that share them
// are offered to that rank at the price of the rest, so a burst does not compute one prefix
// everywhere. From the first byte of the answer on they count as held, since an engine does not
// evict pages in use. After the answer all floor((n+m-1)/page) pages of prompt and answer do, as
// far as their ids are known, until the rank's next events come, at most for 15 s: a client's next
// turn may be faster than they are. A failed request's prediction goes at once, as do those of a
// worker whose process changed. 10 minutes, 4,096 predictions and 64 MiB bound the rest.
// Predictions count in the choice and in the load, never in X-Warmpath-Overlap.
//
// A rank with several KV groups (hybrid models) is credited with the least that any group holds.
// Blocks with extra keys (images, vLLM's salts) have a hash of their own and never match a plain
// prompt. Prompts with extra_key are routed by the approximate tree: SGLang's events name blocks of
// an extra_key as plain ones, so the router that sent the prompt stores them in a domain that
// nothing matches. It cannot tell apart those of other routers and from before its start. A prompt
// with log probabilities from a token on is credited up to that token, a worker with
// --disable-radix-cache with nothing.
//
// # Concurrency
//
// A Router may be used from any goroutine. A Scratch belongs to one goroutine at a time. A choice
// waits for no lock of predictions. Dispatch, the end of a request and messages of other routers
// take inFlight.mu, and index locks under it. A choice, a dispatch and an end take branch locks of
// package turns and the lock of package session, one after the other. The lock of a kept choice
// (recent.go) is only tried by choices.
//
// # Ownership
//
// Pick keeps no part of a prompt but its hashes, which the Scratch aliases until the next
// Dispatch or Pick.
//
// # Errors
//
// ErrUnknownModel, ErrNoWorker and ErrAmbiguous say why no rank was picked. ErrNoPrefill and
// ErrNoDecode, beside ErrNoWorker, say which half of a pair is missing.
package routing
