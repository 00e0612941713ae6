package ingress

// FileShares returns the number of client connections for which the limit of open files leaves
// room, 0 for any number, and how many beyond it are kept for requests that must be answered then.
func FileShares() (clients, reserve int) { return sharesOf(fileLimit()) }

// maxReserve is enough for the health checks of a load balancer and for operators.
const maxReserve = 64

// sharesOf returns the shares where so many files may be open. Each client may need two connections
// to workers at the same time, those to a pair. Probes of workers and their events must go on
// besides: without them the index would forget all caches.
func sharesOf(files int) (clients, reserve int) {
	if files == 0 {
		return 0, maxReserve
	}
	others := max(files/8, min(64, files/2))
	return (files - others) / 3, min(max(others/8, 2), maxReserve)
}
