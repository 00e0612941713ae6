// Package machine tells how much memory this process may use: the least of the machine's, of its
// control groups', and of Go's own limit. Its functions read the system at each call, and any
// goroutine may call them. They return no errors: a limit that cannot be read is none.
package machine
