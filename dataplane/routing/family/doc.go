// Package family names prompts for policies that hash them to ranks and want a name no broader than one rank can carry: DualMap's
// adaptive prefix. It counts late requests, which package policy, without state as it is, cannot.
//
// # Concurrency
//
// [Names] may be used from any goroutine. Counts are atomics without a lock: what is lost while they are halved makes no difference.
//
// # Ownership
//
// Nothing that is passed in is kept.
//
// # Errors
//
// None.
package family
