//go:build soak

package radix

// Random histories of each kind, for `make test` and `make soak`.
const (
	plainHistories    = 200
	budgetHistories   = 150
	aliasHistories    = 75
	reloads           = 2 // of each period
	copylessHistories = 10
	writerHistories   = 3
	rounds            = 1000               // of each writer beside readers
	beyondRounds      = 1500               // of each writer into a full budget
	deadRuns          = 5000               // of each writer
	liveSnapshots     = 25                 // beside writers
	visits            = 2 * maxIdleDomains // of a writer to domains
	tenants           = 6 * maxIdleDomains // a million shows the same
)
