// Package peers lets several routers know each other's requests.
//
// Each router follows the ranks' KV events itself, so all know the same of prefix caches, and each
// chooses for its own requests. Every few milliseconds while they change, and as a whole twice a
// second, it tells the others:
//
//   - its load in flight at each rank (worker.RouterLoad). The next whole message repairs a lost
//     one.
//   - the prompts that it has sent, by fingerprints, until they are computed (Predictions).
//
// A router's word on a rank counts as far as the rank's reports bear it out, at a rank without
// reports up to an equal part and a little more (worker.Load), and its prompts count where its
// requests do. It speaks for itself alone: its token is in the subject.
//
// A router that is silent for Silence is forgotten with its load and prompts; one that ends says
// so. A router that hears no other one works as without this package.
//
// # Concurrency
//
// A Group may be used from any goroutine. Run owns one goroutine, which publishes; the bus calls
// back on its own. loads.mu guards the load of other routers, and worker.Load.mu and the lock of
// Predictions are taken under it. The request path takes news.mu to append a prompt or its end.
//
// # Ownership
//
// Tell copies its fingerprints, and the decoder keeps no part of a message.
//
// # Errors
//
// A message of another version is codec.ErrMessage. It is counted and ignored.
package peers
