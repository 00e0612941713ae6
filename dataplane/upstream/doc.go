// Package upstream is HTTP out: it sends requests to workers over kept-alive connections,
// returns each answer as soon as its header is there, and streams its body to the client.
//
// No stock Go client has all of: cancel before the header without a goroutine per request, a
// per-read timeout that never cuts a living stream, a body sent from the caller's own slices,
// and an error that tells whether the worker can have seen the request.
//
// Do sends a Request and returns a Response. Forward makes it the answer of a
// fasthttp.RequestCtx; ForwardGzip compresses it, ForwardRewrite changes it. A caller that
// looks at the body first gives it back with Unread, or looks with Begin, which takes nothing.
// WholeEvents sends a stream in whole events. Workers are asked for uncompressed answers, so
// that an Observer can read them.
//
// The package does not know package ingress: a Stream writes to any connection that is a
// Client, and a client that leaves calls Canceler.Cancel.
//
// # Buffers
//
// Idle connections hold none, and neither does a connection to a worker that is computing,
// unless it is encrypted (responseReader.fill): the poller wakes the reader, which takes a
// buffer from a pool and reads. That costs no system call more than a buffer of its own.
//
// # System calls
//
// A small request costs one write, a read that finds nothing but the end of the connection
// (responseReader.tryFill), and a read of the answer. A piece of a stream of chunks costs one read
// and one write on Linux without TLS: it goes from socket to socket within one wait of the poller
// (relay), and the kernel tells with each read whether another one would find anything
// (socket.Inbox). A piece that is one whole chunk passes unchanged; other pieces are put into
// chunks of their own.
//
// # Concurrency
//
// A Transport is safe for any number of goroutines. A Response, its Stream and a Request belong
// to one goroutine at a time. A Canceler is the one way in from outside: Cancel may be called
// from anywhere, at any time, any number of times. The part of a body that the socket does not take
// at once is written by a goroutine, which ends before Do returns an error or Response.Close
// returns. Transport.mu guards the idle lists, and idleList.mu, which guards one of them, is taken
// under it. The lock of a joined Canceler is taken under that of the first. No lock is held across
// I/O other than close(2).
//
// # Ownership
//
// Request.Body and Lines stay the caller's. Body must not change until Do returned an
// error or Response.Close returned: a large body may still be on its way while the answer is
// read. A Response belongs to the caller from Do until Close, which must be called exactly
// once; after that it serves another request, and so does the memory of its header. Body bytes
// given to an Observer alias the read buffer: copy what you keep.
//
// # Errors
//
// ErrDial: no connection, nothing was sent. ErrNoResponse: the worker closed or reset before
// the first byte of its answer, ErrStale beside it where the connection was kept alive and the
// request is sent Once. ErrTimeout, ErrCanceled, ErrBadResponse (not HTTP/1.x, or over the
// limits), ErrTruncated (the answer ended early),
// ErrBadRequest (a field that cannot be sent) and ErrClosed have the cause wrapped beside them.
// ErrClient is an Observer's error where the client could not be written to.
package upstream
