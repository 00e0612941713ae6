// Package bubbletest runs tests on the fake clock of testing/synctest, one at a time and on one
// processor where the race detector watches.
//
// The race detector's runtime crashes otherwise, now and then: goroutines of a bubble that select
// on timers which are due run them with one context of the detector, and two that do so on two
// threads at once leave it in no state at all ("SIGSEGV" in __tsan::SlotLock, below
// runtime.(*timer).maybeRunChan; Go 1.26). With 600 such goroutines half of the runs end so, with
// 270 one in some dozens. On one processor they take turns, and what the detector reports does not
// depend on who runs at the same time.
package bubbletest
