package ingress

// DefaultMaxClients returns the number of client connections for which the limit of open files
// leaves room, 0 for any number.
func DefaultMaxClients() int { return clientsFor(fileLimit()) }

// clientsFor returns the number of client connections where so many files may be open. Each may
// need one to a worker at the same time. Probes of workers and their events must go on besides:
// without them the index would forget all caches.
func clientsFor(files int) int {
	others := max(files/8, min(32, files/2))
	return (files - others) / 2
}
