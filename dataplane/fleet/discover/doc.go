// Package discover finds out which workers there are: from flags, a file, DNS, etcd or Kubernetes.
//
// A Source tells its whole set on every change and goes on through every failure of where it looks. What a set means for
// workers that serve is not its business: it drains nobody and removes nobody.
//
// Parse makes a source of what an operator writes, KIND:… with options behind a question mark:
//
//	file:PATH                                   entries, watched; see ParseEntries
//	dns-srv:[ROLE:]NAME[?interval=10s]          SRV records, asked for again and again
//	etcd:HOST:PORT[,HOST:PORT…]/PREFIX          values of keys, watched
//	kubernetes:[NAMESPACE/]SERVICE[?port=NAME]  EndpointSlices of a service, watched
//
// Kubernetes and etcd are spoken to in plain HTTP, lists and watches: client-go made an idle process 16 MB larger (24.6 instead of 8.1 MB)
// and the program 32 MB; etcd's client brings gRPC, 4 MB of program and 0.6 MB of heap in each process before it does anything. etcd is asked
// through its JSON gateway (etcd 3.4 and later, where --enable-grpc-gateway is not off). The gateway does not take a certificate's name for a
// user, as etcd's documentation says: users are told by ?user= and ?password-file=.
//
// A watch of etcd that is silent is checked every 10 s by a question to the same member: whether there are keys that it should have told of. So
// members that are gone, stopped or cut off are left for another one within 15 s, and dead connections that something holds open within 20.
//
// # Concurrency
//
// Run belongs to the goroutine that calls it and ends all that it started before it returns. It calls set from one goroutine
// at a time. Trouble may be called from any.
//
// # Ownership
//
// A set that was told belongs to who was told.
//
// # Errors
//
// ErrSource is a source that cannot be understood, ErrEntry an entry. Both come with the words at fault.
package discover
