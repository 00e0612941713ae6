// Package selfcheck tests a router's choice on the router's own traffic: it replays the requests of
// the last minutes through the simulator (package policies) with the policy in force and with
// others, and changes the policy where the gain is significant and lasting.
//
// # A check
//
//	record    each answered request: its times, its tokens, hashes of its blocks (History)
//	window    the last requests of the busiest model, a part of them to warm caches up (window.go)
//	facts     ranks, speeds, pools, batches, other routers (cluster.go)
//	fit       the costs that no rank reports, by the answers' times (fit.go)
//	match     the policy in force, simulated, has the observed TTFT and hits, or nothing is said
//	compare   the same requests under other policies, in slices of time (compare.go)
//	decide    advise, change, or end the trial of a change (decide.go)
//
// # The decision
//
// A policy is better where its mean TTFT is a tenth lower, no slice of the window hides that (sign
// test over slices), and neither p99 nor the time to the last token suffers. It must be better in
// two checks in a row, whose windows differ by half. A change is a trial: the observed TTFT is
// compared with the forecasts of both policies for the same requests, and the old policy comes back
// where less than half of the gain has come. Then nothing is tried for half an hour, longer each
// time. Changes are ten minutes apart, and farther the more there were.
//
// Of several routers that choose as one, the leader checks: its policy chooses for all. The others
// keep the configured policy until they lead. Routers that share nothing only advise, since each
// sees a part of the traffic; copies of its own requests stand for the others' in every simulation.
//
// # Cost
//
// History is bounded in bytes and requests. A simulation runs in slices of 200 us, each followed by
// a pause that keeps its share of a processor at Limits.Share, 2 %.
//
// # Concurrency
//
// Begin, Commit, Status and TakeBack may be called from any goroutine and do not wait for a check.
// Run has two goroutines, which end before it returns.
//
// # Ownership
//
// An entry belongs to the caller of Begin until Commit. No text of a request is kept.
package selfcheck
