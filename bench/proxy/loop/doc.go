// Package loop provides the event loop of the benchmark's workers and load, which must cost less
// than the routers between them.
//
//	file         job
//	loop.go      Loop: waits, dispatches, runs posted functions
//	conn.go      Conn: reads, writes, leftovers
//	timer.go     Timer: a heap of things to do at a time
//	sys_linux.go system calls: epoll, edge-triggered, with nanosecond time-outs (Linux 5.11)
//
// A goroutine per connection costs a park, a wake-up and two system calls that find nothing for
// each message. Here a message is one read and one write, and thousands of connections are a slice.
//
// # Concurrency
//
// A Loop and all of its Conns and Timers belong to the goroutine of [Loop.Run], and before it to
// their creator. [Loop.Post] and [Loop.Stop] alone may be called from others.
//
// # Ownership
//
// Bytes given to [Handler].Data are valid during the call. [Conn.Write] copies bytes that cannot be
// sent at once; [Conn.Send] does not.
//
// # Errors
//
// [ErrClosed] for a connection that was closed.
package loop
