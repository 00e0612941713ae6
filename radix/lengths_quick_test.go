//go:build !soak

package radix

// Random histories of each kind, for `make test` and `make soak`.
const (
	plainHistories    = 50
	budgetHistories   = 40
	aliasHistories    = 20
	reloads           = 1 // of each period
	copylessHistories = 3
	writerHistories   = 1
	rounds            = 300                    // of each writer beside readers
	beyondRounds      = 600                    // of each writer into a full budget
	deadRuns          = 1000                   // of each writer
	liveSnapshots     = 8                      // beside writers
	visits            = maxIdleDomains/2 + 400 // of a writer to domains
	tenants           = 2 * maxIdleDomains     // a million shows the same
)
