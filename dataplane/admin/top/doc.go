// Package top draws a router's state in a terminal, for `warmpath top`: faults and warnings, the
// traffic of the last minutes and all workers. It knows the router by GET /status and GET /history
// alone, and changes nothing.
//
// [Run] draws until its user quits; [Snapshot] is the same as plain text, once. [Plain] is for
// other commands that write text of others to a terminal.
//
// # Concurrency
//
// A [Source] is called from one goroutine at a time.
//
// # Ownership
//
// A reading belongs to the package once a Source has returned it.
//
// # Errors
//
// Run shows the errors of a Source and asks again. Snapshot returns them.
package top
