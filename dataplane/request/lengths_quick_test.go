//go:build !soak

package request_test

// Lengths of histories for `make test`; lengths_soak_test.go has those of `make soak`.
const (
	clientRounds  = 1     // how often an ill client asks each API
	healthyEach   = 2     // requests of a healthy client beside an ill worker, again until its breaker opens
	closingEach   = 2     // requests of a client whose workers end each connection
	allDialects   = false // each illness in each API, else in chat, each failure as a stream and as JSON, each cut by each path
	unreadStreams = 4     // of a client that reads none of them: each fills the buffers of its connections
	waitingAtOnce = 80    // requests that a worker fails at one instant
)
