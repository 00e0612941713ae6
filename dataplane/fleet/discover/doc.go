// Package discover names the workers of a router: from flags, a file, DNS, etcd or Kubernetes.
//
// A Source delivers its whole set at every change and survives every failure of its server. The
// set's meaning for workers in use belongs to package fleet: a source drains and removes none.
//
// Parse makes a source of an operator's text, KIND:… with options after a question mark:
//
//	file:PATH                                   entries, watched; see ParseEntries
//	dns-srv:[ROLE:]NAME[?interval=10s]          SRV records, polled
//	etcd:HOST:PORT[,HOST:PORT…]/PREFIX          values of keys, watched
//	kubernetes:[NAMESPACE/]SERVICE[?port=NAME]  EndpointSlices of a service, watched
//
// Kubernetes and etcd are asked in plain HTTP, lists and watches: client-go made an idle
// process 16 MB larger (24.6 instead of 8.1 MB) and the program 32 MB; etcd's client brings
// gRPC, 4 MB of program and 0.6 MB of heap in each process before any use. etcd is asked
// through its JSON gateway (etcd 3.4 and later, unless --enable-grpc-gateway is off). According
// to etcd's documentation the gateway takes no user from a certificate's name: ?user= and
// ?password-file= name one.
//
// A silent watch of etcd is checked every 10 s by asking the same member for keys that the
// watch should have delivered. So a source leaves members that are gone, stopped or cut off
// within 15 s, and dead connections that a middlebox holds open within 20.
//
// # Concurrency
//
// Run belongs to the goroutine that calls it and ends all that it started before it returns. It
// calls set from one goroutine at a time. Trouble may be called from any goroutine.
//
// # Ownership
//
// A delivered set belongs to the receiver.
//
// # Errors
//
// ErrSource is an unusable source, ErrEntry an unusable entry. Both quote the text at fault.
package discover
