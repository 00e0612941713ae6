package nixltest

import (
	"github.com/warmpath/warmpath/cgo"
	"github.com/warmpath/warmpath/nixl"
)

// request is a request on a Loopback. Its fields are guarded by the fabric's lock.
type request struct {
	op            nixl.Op
	peer          string
	local, remote []nixl.Region
	bytes         uint64
	status        cgo.StatusError
}

// Create checks a request as the library does: memory that is not registered is refused here,
// before any byte moves.
func (e *engine) Create(op nixl.Op, peer string, local, remote []nixl.Region) (nixl.Request, error) {
	if err := e.lock(); err != nil {
		return nil, err
	}
	defer e.net.mu.Unlock()
	r := &request{op: op, peer: peer, local: local, remote: remote, status: cgo.ErrInProgress}
	theirs, ok := e.peers[peer]
	if !ok {
		return nil, cgo.ErrBackend // the library's status for an unknown peer
	}
	for i := range remote {
		r.bytes += remote[i].Len
		if !contains(theirs, remote[i]) || e.bytes(local[i]) == nil {
			return nil, cgo.ErrBackend
		}
	}
	return r, nil
}

// contains reports whether a region lies within one of the memories.
func contains(memories map[uint64]uint64, r nixl.Region) bool {
	for addr, size := range memories {
		if r.Addr >= addr && r.Len <= size && r.Addr-addr <= size-r.Len {
			return true
		}
	}
	return false
}

// bytes of a region of the engine's memory; nil where it is not registered.
func (e *engine) bytes(r nixl.Region) []byte {
	for addr, data := range e.memory {
		size := uint64(len(data))
		if r.Addr >= addr && r.Len <= size && r.Addr-addr <= size-r.Len {
			return data[r.Addr-addr:][:r.Len]
		}
	}
	return nil
}

// Post begins a request with the outcome that OnPost's function chooses.
func (e *engine) Post(posted nixl.Request) error {
	if err := e.lock(); err != nil {
		return err
	}
	defer e.net.mu.Unlock()
	r := posted.(*request)
	var outcome Outcome
	if e.net.onPost != nil {
		outcome = e.net.onPost(Request{Op: r.op, From: e.name, To: r.peer, Bytes: r.bytes, Index: e.posted})
	}
	e.posted++
	switch {
	case outcome.PostErr != 0:
		r.status = outcome.PostErr
	case outcome.Until == nil:
		e.finish(r, outcome.FinalErr)
	default:
		go func() {
			<-outcome.Until
			e.net.mu.Lock()
			defer e.net.mu.Unlock()
			e.finish(r, outcome.FinalErr)
		}()
	}
	if r.status == 0 {
		return nil
	}
	return r.status
}

// finish moves a request's bytes, released or not, unless its engine was destroyed. The caller
// holds the fabric's lock.
func (e *engine) finish(r *request, err cgo.StatusError) {
	if e.dead {
		return
	}
	to := e.net.engines[r.peer]
	r.status = cgo.ErrBackend
	if to == nil {
		return
	}
	for i := range r.local {
		ours, theirs := e.bytes(r.local[i]), to.bytes(r.remote[i])
		if ours == nil || theirs == nil {
			return
		}
		if r.op == nixl.Read {
			copy(ours, theirs)
		} else {
			copy(theirs, ours)
		}
	}
	r.status = err
}

// Release forgets a request and, as in the library, does not stop its bytes: see finish.
// Abandoned transfers exist for that reason.
func (e *engine) Release(nixl.Request) error {
	if err := e.lock(); err != nil {
		return err
	}
	e.net.mu.Unlock()
	return nil
}
