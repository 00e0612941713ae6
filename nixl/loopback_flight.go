package nixl

import "github.com/warmpath/warmpath/cgo"

// loopFlight is a request of a Loopback. Its fields are guarded by the fabric's lock.
type loopFlight struct {
	job           cgo.Job
	local, remote []cgo.Region
	bytes         uint64
	status        cgo.StatusError
}

// create checks a request as the library does when it is made: memory that is not registered is found here, not when bytes move.
func (e *loop) create(job *cgo.Job, local, remote []cgo.Region) (request, error) {
	if err := e.enter(); err != nil {
		return nil, err
	}
	defer e.net.mu.Unlock()
	f := &loopFlight{job: *job, local: local, remote: remote, status: cgo.ErrInProgress}
	theirs, ok := e.known[job.Peer]
	if !ok {
		return nil, cgo.ErrBackend // as the library folds it
	}
	for i, r := range remote {
		f.bytes += r.Len
		if lies(theirs, r) && e.bytes(local[i]) != nil {
			continue
		}
		return nil, cgo.ErrBackend
	}
	return f, nil
}

// lies reports whether a region is within one of the memories.
func lies(memories map[uint64]uint64, r cgo.Region) bool {
	for addr, size := range memories {
		if r.Addr >= addr && r.Len <= size && r.Addr-addr <= size-r.Len {
			return true
		}
	}
	return false
}

// bytes of a region of the engine's memory; nil where it is not registered.
func (e *loop) bytes(r cgo.Region) []byte {
	for addr, data := range e.memory {
		if r.Addr >= addr && r.Len <= uint64(len(data)) && r.Addr-addr <= uint64(len(data))-r.Len {
			return data[r.Addr-addr:][:r.Len]
		}
	}
	return nil
}

// post begins a request. Its fate is the hook's: to fail at once, to end now, or to hang until the test lets it go on.
func (e *loop) post(r request) error {
	if err := e.enter(); err != nil {
		return err
	}
	defer e.net.mu.Unlock()
	f := r.(*loopFlight)
	var fate Fate
	if e.net.hook != nil {
		fate = e.net.hook(LoopbackRequest{Op: f.job.Op, From: e.name, To: f.job.Peer, Bytes: f.bytes, Index: e.posted})
	}
	e.posted++
	switch {
	case fate.Err != 0:
		f.status = fate.Err
	case fate.Until == nil:
		e.finish(f, fate.Late)
	default:
		go func() {
			<-fate.Until
			e.net.mu.Lock()
			defer e.net.mu.Unlock()
			e.finish(f, fate.Late)
		}()
	}
	if f.status == 0 {
		return nil
	}
	return f.status
}

// finish moves a request's bytes, whether it was released or not, unless its engine was destroyed. It holds the fabric's lock.
func (e *loop) finish(f *loopFlight, late cgo.StatusError) {
	if e.dead {
		return
	}
	to := e.net.engines[f.job.Peer]
	f.status = cgo.ErrBackend
	if to == nil {
		return
	}
	for i := range f.local {
		mine, theirs := e.bytes(f.local[i]), to.bytes(f.remote[i])
		if mine == nil || theirs == nil {
			return
		}
		if f.job.Op == Read {
			copy(mine, theirs)
		} else {
			copy(theirs, mine)
		}
	}
	if late != 0 {
		f.status = late
		return
	}
	f.status = 0
	if f.job.Note != nil {
		e.deliver(f.job.Peer, f.job.Note)
	}
}

// release forgets a request and, as the library's, does not stop its bytes: see finish. That is what quarantine is for.
func (e *loop) release(request) error {
	if err := e.enter(); err != nil {
		return err
	}
	e.net.mu.Unlock()
	return nil
}
