// Package routing decides where a request goes: prompt tokens are cut into
// blocks, the index says who holds how many of them, and the policy picks.
// What was sent to a rank and is not in its events yet is a prediction in the
// index, see Flight.
// For ranks whose events are not followed, and for prompts whose ids are not
// known, the approximate tree says what is believed instead.
//
// What a rank is known to hold is credited by how far that can be trusted
// (worker.Trust), and its load is what it reports and what was sent there since
// (worker.Load). Explain says what Pick would do, by the same code.
//
// Where prefill and decode workers serve a model, a decision is for two ranks:
// Rank computes the prompt, Decode generates. Where others serve it too, short
// prompts and those that are faster there go to one rank alone.
//
// What the facts about GPUs say leaves ranks out, or weighs them: see tier. Facts never leave nobody; then the least bad ranks are
// candidates, and the Decision says so. What KV tiers of nodes hold (Stores) and how fast links are (SetLinks) comes from those who know. A rank's node
// is told what to pull from a peer's tier when a decision that reckons with it is dispatched (Hints).
//
// It knows nothing of HTTP. What it decides is in a Decision, with all that is
// needed to explain it afterwards.
//
// # Concurrency
//
// Router may be used from any goroutine. A Scratch belongs to one goroutine at
// a time.
//
// # Ownership
//
// Pick reads the prompt and keeps nothing of it, but for its hashes: the Scratch
// aliases them until the Dispatch or the Pick that follows.
//
// # Errors
//
// ErrUnknownModel, ErrNoWorker and ErrAmbiguous say why nobody was picked;
// ErrNoPrefill and ErrNoDecode, beside ErrNoWorker, which half of a pair is missing.
package routing
