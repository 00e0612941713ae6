// Package socket is TCP by direct non-blocking system calls, for the connections to clients and
// workers.
//
// Go's poller waits, as for any connection; the reads and writes themselves are system calls
// that the scheduler is not told of. They never block, so there is nothing to tell, and telling
// has a price: in an idle process the first such call wakes the runtime's monitor thread, which
// costs two futex calls, a sleep and two context switches for each request and each chunk of a
// stream. Systems other than Linux use Go's own calls.
//
// # Buffers
//
// ReadAhead waits without a buffer: the poller wakes the reader, which then takes one from a
// pool.
//
// # Concurrency
//
// One goroutine may read a Conn while another one writes it. The functions that take a
// descriptor are for use inside syscall.RawConn's callbacks, which keep it open.
//
// # Ownership
//
// A Buffer belongs to its taker until Release.
package socket
