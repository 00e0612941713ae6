//go:build !soak

package index

// Requests of a churn, for `make test` and `make soak`.
const churnRequests = 200
