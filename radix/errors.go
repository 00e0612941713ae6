package radix

import "errors"

var (
	// ErrUnknownParent means that the worker does not hold the parent in any tier: an event was
	// lost, so the caller resyncs the worker.
	ErrUnknownParent = errors.New("radix: unknown parent")
	// ErrUnknownWorker means that the worker was never added or has been removed.
	ErrUnknownWorker = errors.New("radix: unknown worker")
	// ErrBudget means that the memory budget has no room for the blocks or has evicted their
	// parent. No event was lost, so a resync is useless; the index lacks blocks of the worker
	// until Clear.
	ErrBudget = errors.New("radix: beyond the memory budget")
	// ErrUnknownDomain means that the domain is of another index, or was freed because it had
	// no blocks: the caller interns its key again.
	ErrUnknownDomain = errors.New("radix: unknown domain")
	// ErrUnknownTier means that blocks cannot be stored in the given tier.
	ErrUnknownTier = errors.New("radix: unknown tier")
	// ErrMismatch means that a store has more or fewer engine hashes than blocks.
	ErrMismatch = errors.New("radix: engine hashes and blocks differ in number")
)
