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
	visits            = 2 * maxIdleDomains // of a writer to domains
	tenants           = 6 * maxIdleDomains // a million shows the same
)
