// Package ingress is HTTP in: it accepts the connections of clients, has fasthttp parse and
// serve their requests, and tells when a client leaves.
//
// A Server owns the listener and one goroutine for each connection. The goroutine waits for the
// first bytes of a request and then calls fasthttp.Server.ServeConn, which reads requests,
// calls the handler and writes answers until the connection has been idle for parkAfter. Then
// the goroutine waits again. fasthttp sees no idle connection, and an idle connection has no
// buffers.
//
// # Checks beyond fasthttp
//
// checkHead refuses heads that fasthttp accepts and other servers read differently: lines that
// end in LF alone, fields in two lines, names with a space, Content-Length beside
// Transfer-Encoding, a coding other than chunked. First lines and those of chunks are looked at as
// they come (headLines, chunks): fasthttp does not tell how they ended. checkTarget refuses targets
// that need resolving. dropNominated removes the fields that Connection names. A request that is
// refused by its head is answered before any of its body is read, by fasthttp's ExpectHandler.
//
// Bodies are streamed from fasthttp into memory that grows with the bytes that have come. A
// body over MaxBody, a chunked coding that outweighs its body, and a request slower than its
// Limits.Arrival and Limits.Rate end the connection: 413, 400 and 408. The trailer of an upload is
// dropped.
//
// # Limits
//
// A roster has the open connections. At the limit a new one takes the place of one that waits for a
// request; where none does, it is one of the reserve, which answers what Config.Reserved names and
// refuses the rest. A sender cuts a client that takes nothing of its answer.
//
// # TLS
//
// crypto/tls runs over the same sockets (Config.TLS): a Client reads and writes the bytes of
// HTTP, and the Watcher watches the socket below.
//
// # Concurrency
//
// A Server and a Watcher are safe for any number of goroutines. A Client belongs to the
// goroutine that serves it; Guard, Release and Gone may be called from anywhere. The Watcher
// has one goroutine, that of Run, which calls Canceler.Cancel with Client.mu held. Server.mu guards
// the listeners and the roster, Watcher.mu the watches; both are taken alone. The goroutines of
// connections outlive Serve: Leave and Shutdown wait for them until their context ends.
//
// # Ownership
//
// A request and its body are valid until the handler's answer is written. Memory for bodies and
// buffers comes from pools.
//
// # Errors
//
// Config.Refuse gets ErrRequest, ErrBodyTooLarge, ErrHeadTooLarge, ErrExpectation,
// ErrVersion, ErrSlowRequest, ErrFull, or fasthttp's error for a head that it cannot parse.
package ingress
