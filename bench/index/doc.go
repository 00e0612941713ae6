// Package index measures the block index (package radix) on what workers publish and routers ask while a trace is served, and
// counts the answers that are wrong.
//
//	file          job
//	workload.go   a recorded history: requests, changes, look-ups and their right answers
//	file.go       its file format, KVWL0001
//	trace.go      requests: traces in Mooncake's format, and two made ones
//	generate.go   a trace, routed to simulated caches, as a workload
//	cache.go      one simulated cache
//	holes.go      what that cache never does: holes, heals, clears
//	hash.go       content and engine hashes of blocks
//	player.go     a workload's changes and look-ups on an index
//	measure.go    the rounds of a workload: apply, look up, both at once, memory
//	decision.go   token ids of a long prompt to workers
//	churn.go, churn_measure.go
//	              a history of tiers, ranks, aliases and restarts, which the file format cannot say
//	oracle.go     the right answers for it, by maps
//	result.go     numbers, medians, the table
//	compare.py    the same beside other indexes' harness
//
// # What the times are
//
// The measurements are those of the harness that other projects' indexes are measured with, so that the numbers may stand beside
// theirs: the same file, whole passes over its look-ups for the rates, and a clock read before and after each single look-up for the
// percentiles. Two reads of the clock are therefore in each (the row "clock" says how long they take alone), as they are in theirs.
// Results go into a slice that is used again.
//
// # Concurrency
//
// A [Workload] is read by any number of goroutines once it is made. All goroutines that a run starts have ended when it returns.
//
// # Errors
//
// [ErrFormat] is a file that is no workload. [ErrWrong] is an index that answered wrongly or refused a change; the result that comes
// with it is complete.
package index
