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
// Kubernetes is spoken to in plain HTTP lists and watches: client-go made an idle process 16 MB larger (24.6 instead of 8.1 MB)
// and the program 32 MB.
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
