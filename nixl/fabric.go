package nixl

import (
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/cgo"
)

// Fabric creates engines: a [Library], or nixltest.Loopback in tests.
type Fabric interface {
	// Open creates an engine under a name that no other engine has. It and every call into the
	// engine come from one OS thread.
	Open(name, backend string) (Engine, error)
}

// Engine is one agent of a transfer library. A refusal is a cgo.StatusError.
type Engine interface {
	Register(m *Memory) error
	Deregister(m *Memory) error
	// Metadata returns the bytes that a peer's engine loads to reach this one.
	Metadata() ([]byte, error)
	LoadPeer(metadata []byte) (name string, err error)
	ForgetPeer(name string) error

	// Create prepares a request: local[i] and remote[i] belong together and have equal lengths.
	Create(op Op, peer string, local, remote []Region) (Request, error)
	// Post starts a request: nil is done, cgo.ErrInProgress under way.
	Post(r Request) error
	// Wait blocks until a request has ended, the timeout has passed or wake is not 0, and fills
	// statuses with cgo.StatusError values.
	Wait(requests []Request, statuses []int32, timeout time.Duration, wake *atomic.Uint32)
	// Release forgets a request. Bytes of a request in progress still move.
	Release(r Request) error

	// Destroy ends the engine. After it returns, none of the engine's requests moves a byte.
	Destroy() error
}

// Request is a transfer of at most Config.MaxDescriptors pieces, in the engine's own
// representation.
type Request any

// Region is a piece of memory by address and length.
type Region = cgo.Region
