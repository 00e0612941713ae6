// Package index measures the block index (package radix) on the KV events and look-ups of a
// served trace, and counts wrong answers.
//
//	file               content
//	workload.go        a recorded history: requests, changes, look-ups and their right answers
//	file.go            its file format, KVWL0001
//	trace.go           requests: traces in Mooncake's format, and two synthetic ones
//	generate.go        a trace served by simulated workers, as a workload
//	disturb.go         holes, refills and clears, which that cache alone never makes
//	hash.go            block hashes and engine hashes
//	player.go          a workload's changes and look-ups on an index
//	measure.go         the rounds of a workload: apply, look up, both at once, memory
//	measure_tokens.go  from the token ids of a long prompt to its holders
//	result.go          numbers, medians, the table
//	compare.py         the same beside the harness of other indexes
//
// # Times
//
// The measurements are those of the harness of other projects' indexes, so that numbers are
// comparable: the same file, whole passes over its look-ups for the rates, and a clock read
// before and after each look-up for the percentiles. So two clock reads are in each (the row
// "clock" is their time alone), as in theirs. Results go into a reused slice.
//
// # Concurrency
//
// Any number of goroutines may read a [Workload]. All goroutines of a run have ended when it
// returns.
//
// # Errors
//
// [ErrFormat] is a file that is no workload. [ErrWrong] is an index that answered wrongly or
// refused a change; the result that comes with it is complete.
package index
