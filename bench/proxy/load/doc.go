// Package load sends prompts over HTTP/1.1 at a rate or as fast as they are answered, checks each
// answer, and says how long it took.
//
//	file            job
//	config.go       Config: the load and its duration
//	run.go          Run: the measured time, the sum
//	thread.go       the event loop with its connections: closed and open loop
//	arrivals.go     when the requests of an open loop are due
//	client.go       one connection: a request, its answer
//	response.go     answers read as they come, and checked
//	prompt.go       bodies of any size, each prompt unlike all others
//	conversation.go bodies of conversations that grow
//	result.go       measurements
//
// # The times
//
// In a closed loop each connection sends its next request when the last one is answered: that finds
// the highest rate, and its latencies say only how long the queue was. In an open loop requests
// come when they are due, whether others are answered or not, and latency counts from when a
// request was due: a stall counts for all requests due during it (no coordinated omission). The
// time from the first byte sent is kept too.
//
// # Concurrency
//
// One event loop has all connections, on the caller's goroutine.
//
// # Errors
//
// [ErrConfig] for an impossible configuration, [ErrConnect] when the target cannot be reached.
// Failed requests are no error of Run: [Result].Errors counts them by their cause.
package load
