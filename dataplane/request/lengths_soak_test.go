//go:build soak

package request_test

// Lengths of histories for `make soak`; lengths_quick_test.go says what they are of.
const (
	clientRounds  = 8
	healthyEach   = 12
	closingEach   = 12 // requests of a client whose workers end each connection
	allDialects   = true
	unreadStreams = 100
	waitingAtOnce = 200
)
