// Package service makes a process one of several that serve the same sockets in turn, and a unit of
// systemd.
//
// Sockets come from systemd (socket activation), from the process before this one, or from nobody.
// Both givers speak systemd's protocol: descriptors from 3 on, named in LISTEN_FDNAMES.
//
// # Upgrade
//
// A process starts its Successor from the file that it was started from itself, and gives it the
// sockets. The Successor loads its state, and begins to accept when it can serve; then the process
// stops accepting and ends with its last connection. A Successor that fails has changed nothing.
//
// There is one queue of connections, which both processes accept from: none is refused, and none is
// lost with its process. SO_REUSEPORT would give each process a queue of its own, and the kernel
// resets what is in a queue whose process closes it. A socket that is asked for over a Unix socket
// would do as well, but for a path that both must know, whom to let connect to it, and a supervisor
// that must run two processes at once; as a child, the Successor stays in its parent's unit,
// sandbox, directory and terminal. In a container, where the first process may not end, a rolling
// update of several routers takes its place.
//
// # Concurrency
//
// Take is called once, before other goroutines start: it changes the environment. All else may be
// called from any goroutine.
//
// # Ownership
//
// Listeners belong to the caller. A Successor gets copies of their descriptors.
//
// # Errors
//
// ErrSockets is a socket that cannot be used.
package service
