package radix

import "errors"

var (
	// ErrUnknownParent says that the worker does not hold the parent in any tier: an event was lost, so resync the worker.
	ErrUnknownParent = errors.New("radix: unknown parent")
	// ErrUnknownWorker says that the worker was never added or has been removed.
	ErrUnknownWorker = errors.New("radix: unknown worker")
	// ErrBudget says that the budget has no room for the blocks, or has taken their parent: no event was lost, so do not resync the worker.
	// Some of the worker's blocks are not known until it is cleared and stores them again.
	ErrBudget = errors.New("radix: beyond the budget of memory")
	// ErrUnknownDomain says that the domain did not come from this index, or was freed as nobody held a block of it: intern its key again.
	ErrUnknownDomain = errors.New("radix: unknown domain")
	// ErrUnknownTier says that a block cannot be stored in the tier given.
	ErrUnknownTier = errors.New("radix: unknown tier")
	// ErrMismatch says that a store has not one engine hash for each block.
	ErrMismatch = errors.New("radix: engine hashes and blocks differ in number")
)
