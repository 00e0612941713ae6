// Package leaktest looks for goroutines that tests leave behind, with the patience of a busy
// machine.
//
// goleak by itself gives the last goroutines 0.4 s: those of a connection that was just closed may
// not have run again by then, where other processes have the processors.
//
// Temporary files are deleted with [Folder].
package leaktest
