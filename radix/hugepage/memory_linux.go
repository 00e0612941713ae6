package hugepage

// Memory returns the bytes that this process may use: the least of the machine's, its control groups' and Go's own limit.
func Memory() int64 { return memory() }
