// Package upstream speaks HTTP/1.1 to the workers: it sends a request over a kept-alive connection, hands the answer back as
// soon as its header is there, and streams the body to the client without holding anything back.
//
// It exists because no stock Go client has all of: cancel before the header without a goroutine per request, a per-read
// timeout that never cuts a living stream, a body sent from the caller's own slices, and an error that says whether the
// worker can have seen the request.
//
// A client that leaves is noticed by a Watcher: connections from its Listen are watched for life, and Client.Guard ties the
// request being served to a Canceler (about 10 ns); Watch does the same for any one connection, for two system calls.
//
// TLS, towards either side, is crypto/tls over the same sockets: ListenTLS for clients, Target.TLS for workers. A Client reads and
// writes the bytes of HTTP, through a session where there is TLS; who left is seen below it.
// Workers are asked for uncompressed answers, so that an Observer can read them; ForwardGzip compresses for a client, and
// ForwardRewrite changes a body on its way. What a caller has read to look at it, Unread gives back; Begin looks without reading.
// WholeEvents sends a stream in whole events, so that what Observer.Broken adds never meets half of one.
//
// ListenPlain answers plain requests in place of the fasthttp server above it (Plain says which they are, and hands them out as Inbound).
// The parser of their heads (appendFields) takes one way of writing only, and is fuzzed against net/http and fasthttp: where it says
// yes, all three read the same request, and where it does not, fasthttp gets the bytes as they came: one request at a time, whole, so that it
// makes room for nothing that has not come (Client.awaitOdd). Chunked bodies are read by the decoder of the workers' answers, within
// limits (upload). Answers' heads are read by the parser, too, where Request.Plain asks for that.
//
// # Buffers
//
// Connections that wait hold none: an idle client's, where fasthttp runs with ReduceMemoryUsage (Client.Read), an idle worker's,
// and the one to a worker that is computing, unless it is encrypted (conn.fill). The poller wakes the reader, which takes a
// buffer from a pool and reads: no system call more than with a buffer of its own.
//
// # System calls
//
// A small request under load costs two reads and two writes, as it would in a loop over epoll: nobody reads where nothing can be
// there yet (conn.quiet, Client.read).
//
// A piece of a stream of chunks costs one read and one write: on Linux, and without TLS, it goes from socket to socket within one wait of the
// poller (relay), and the kernel says with each read whether another one would find anything (inbox). One that comes as a whole chunk goes
// as it came; what is cut otherwise is put into chunks of our own.
//
// # Concurrency
//
// Transport and Watcher are safe for any number of goroutines. A Response, its Stream and a Request belong to one goroutine
// at a time. A Canceler is the one way in from outside: Cancel may be called from anywhere, at any time, any number of times.
// Locks: the idle list's and the Canceler's are leaves; neither is held across I/O other than close(2). The Watcher calls
// back with the lock of that one watch held.
//
// # Ownership
//
// Request.Body, Header and Lines stay the caller's. Body must not change until Do returned an error or Response.Close
// returned: a large body may still be on its way while the answer is read. A Response belongs to the caller from Do until
// Close, which must be called exactly once; after that it serves another request, and so does the memory its header's
// slices point into. Body bytes given to an Observer alias the read buffer: copy what you keep.
//
// # Errors
//
// ErrDial: no connection, nothing was sent. ErrNoResponse: the worker closed or reset before the first byte of its answer.
// Retryable is true for these two. ErrTimeout, ErrCanceled, ErrBadResponse (not HTTP/1.x, or over the limits), ErrTruncated
// (the answer ended early), ErrBadRequest (a field that cannot be put on the wire) and ErrClosed say what they say; the
// cause is wrapped beside the sentinel. ErrClient is what an Observer is told when the client could not be written to.
package upstream
