// Package peers makes several routers choose as one would.
//
// Each router follows the ranks' KV events itself, so all know the same of prefix caches. They
// do not know each other's load, and share it in two ways:
//
//   - Each publishes its load in flight at each rank (worker.Share), every few milliseconds
//     while it changes and twice a second as a whole. The next whole message repairs a lost
//     one. A router that is silent for Silence is forgotten with its load; one that ends says
//     so.
//   - One of them, the leader, runs for longest and chooses for all. The others send it a
//     request with their overlaps (routing.PeerRequest) and use its reply. Requests that reach
//     several routers at once are so chosen one after the other; by replay of a trace with such
//     bursts, messages after each choice are worth nothing there, however fast.
//
// The leader knows prompts that no event tells of yet by fingerprints (Config.Predictions):
// prompts that it chose for, prompts that were sent without it, and after a change of leader
// all that are in flight.
//
// No request waits longer than Deadline for the leader. Where a reply is late all choose by
// themselves, and one request at a time finds out whether the leader is back. A router that
// hears no other one works as without this package.
//
// # Concurrency
//
// A Group may be used from any goroutine. Run owns one goroutine, which publishes; the bus
// calls back on its own. responder.mu is held while the leader chooses, and loads.mu is taken
// under it; loads.mu guards the load of other routers, and worker.Load.mu is taken under it.
// The request path takes requests.mu for a map entry.
//
// # Ownership
//
// Choose and the decoders keep no part of their arguments.
//
// # Errors
//
// A message of another version or kind is codec.ErrMessage. It is counted and ignored.
package peers
