// Package proto defines the terms that KV tiers and routers share: page hashes, kinds of pages, and
// changes of the pages that a tier holds.
//
// # Concurrency
//
// There is no state.
package proto
