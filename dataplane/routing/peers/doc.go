// Package peers makes several routers choose as one would.
//
// Each router reads the ranks' KV events itself, so what caches hold they know alike. What they do not know of each other is load, and it is
// shared in two ways:
//
//   - Each tells all what it has in flight at each rank (worker.Share), every few milliseconds while something changes and twice a
//     second as a whole. It is a state: what is lost is made good by the next whole one. A router that is silent for Silence is
//     forgotten with its load; one that ends says so.
//   - One of them, the one that runs for longest, chooses for all. The others send it what they know of a request (route.Ask) and use its
//     answer. Requests that arrive at one instant at several routers are so still chosen one after the other, each knowing of the one
//     before; by replay of a trace with such bursts, telling each other afterwards is worth nothing there, whatever the delay.
//
// Prompts that no event tells of yet are known to that router by fingerprints (Config.Expected): those that it chose for, those that were
// sent without it, and after a change of router those that are in flight.
//
// No request waits for another router for longer than Deadline. Where an answer is late, all choose by themselves at once, and one request
// at a time finds out whether it is better again. A router that hears nobody is alone, and works as one without this package.
//
// # Concurrency
//
// A Group may be used from any goroutine. Run owns one goroutine, which publishes; the bus calls back on its own. Group.mu guards what is
// known of others and is taken by those only, and worker.Load.mu under it; the request path takes Group.asks.mu, for a map entry.
//
// # Ownership
//
// Choose and the decoders keep nothing of what they are given.
//
// # Errors
//
// ErrMessage is a message that no version of this package has sent. It is counted and ignored.
package peers
