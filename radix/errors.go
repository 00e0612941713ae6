package radix

import "errors"

var (
	// ErrUnknownParent says that the worker does not hold the parent in any tier: an event was lost, so resync the worker.
	ErrUnknownParent = errors.New("radix: unknown parent")
	// ErrUnknownWorker says that the worker was never added or has been removed.
	ErrUnknownWorker = errors.New("radix: unknown worker")
	// ErrUnknownDomain says that the domain did not come from this index.
	ErrUnknownDomain = errors.New("radix: unknown domain")
	// ErrUnknownTier says that a block cannot be stored in the tier given.
	ErrUnknownTier = errors.New("radix: unknown tier")
	// ErrMismatch says that a store has not one engine hash for each block.
	ErrMismatch = errors.New("radix: engine hashes and blocks differ in number")
)
