package nixltest

import (
	"bytes"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/cgo"
	"github.com/warmpath/warmpath/nixl"
)

// Loopback is a fabric within this process with the rules of the real library: one thread for
// each agent, no way to stop a request, errors without details. Tests make it fail by OnPost,
// Kill, Refuse and BlockDestroy.
type Loopback struct {
	mu           sync.Mutex // guards all below, and every copy
	engines      map[string]*engine
	onPost       func(Request) Outcome
	refuse       error
	blockDestroy <-chan struct{}
}

var _ nixl.Fabric = (*Loopback)(nil)

// Request describes a request to the function of OnPost.
type Request struct {
	Op    nixl.Op
	From  string // the agent that posts it
	To    string
	Bytes uint64
	Index int // among all requests of its agent
}

// Outcome decides a request. The zero value completes it at once.
type Outcome struct {
	PostErr  cgo.StatusError // it fails in the post
	FinalErr cgo.StatusError // it fails when it ends
	Until    <-chan struct{} // its bytes move, and it ends, when this is closed; nil is at once
}

// NewLoopback makes a fabric without agents.
func NewLoopback() *Loopback { return &Loopback{engines: map[string]*engine{}} }

// OnPost lets f decide about each request; nil completes all at once. f runs on the agent's
// thread and must not call the fabric.
func (l *Loopback) OnPost(f func(Request) Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onPost = f
}

// Refuse makes every new agent fail with err, until nil.
func (l *Loopback) Refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = err
}

// BlockDestroy makes the end of every agent wait until a channel is closed; nil does not wait.
func (l *Loopback) BlockDestroy(until <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blockDestroy = until
}

// Kill removes an agent as if its process had died.
func (l *Loopback) Kill(a *nixl.Agent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.engines, a.Name())
}

// Open creates an engine.
func (l *Loopback) Open(name, _ string) (nixl.Engine, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		return nil, l.refuse
	}
	e := &engine{
		net: l, name: name, thread: unix.Gettid(),
		peers: map[string]map[uint64]uint64{}, memory: map[uint64][]byte{},
	}
	l.engines[name] = e
	return e, nil
}

// engine is an agent on a Loopback. Its fields are guarded by the fabric's lock.
type engine struct {
	net    *Loopback
	name   string
	thread int
	memory map[uint64][]byte            // by address
	peers  map[string]map[uint64]uint64 // loaded peers: the lengths of their memories by address
	posted int
	dead   bool
}

var _ nixl.Engine = (*engine)(nil)

// lock begins each call. As in the real library, an agent's calls must come from one thread.
func (e *engine) lock() error {
	e.net.mu.Lock()
	if e.dead || unix.Gettid() != e.thread {
		e.net.mu.Unlock()
		return cgo.ErrInvalidState
	}
	return nil
}

func (e *engine) Register(m *nixl.Memory) error {
	if err := e.lock(); err != nil {
		return err
	}
	defer e.net.mu.Unlock()
	e.memory[m.Region().Addr] = m.Bytes()
	return nil
}

func (e *engine) Deregister(m *nixl.Memory) error {
	if err := e.lock(); err != nil {
		return err
	}
	defer e.net.mu.Unlock()
	delete(e.memory, m.Region().Addr)
	return nil
}

// Metadata is the name, a zero byte, and address and length of each memory.
func (e *engine) Metadata() ([]byte, error) {
	if err := e.lock(); err != nil {
		return nil, err
	}
	defer e.net.mu.Unlock()
	data := append([]byte(e.name), 0)
	for addr, memory := range e.memory {
		data = binary.LittleEndian.AppendUint64(data, addr)
		data = binary.LittleEndian.AppendUint64(data, uint64(len(memory)))
	}
	return data, nil
}

func (e *engine) LoadPeer(metadata []byte) (string, error) {
	if err := e.lock(); err != nil {
		return "", err
	}
	defer e.net.mu.Unlock()
	name, list, ok := bytes.Cut(metadata, []byte{0})
	if !ok || len(list)%16 != 0 {
		return "", cgo.ErrBackend
	}
	memories := map[uint64]uint64{}
	for ; len(list) > 0; list = list[16:] {
		memories[binary.LittleEndian.Uint64(list)] = binary.LittleEndian.Uint64(list[8:])
	}
	e.peers[string(name)] = memories
	return string(name), nil
}

func (e *engine) ForgetPeer(peer string) error {
	if err := e.lock(); err != nil {
		return err
	}
	defer e.net.mu.Unlock()
	if _, ok := e.peers[peer]; !ok {
		return cgo.ErrNotFound
	}
	delete(e.peers, peer)
	return nil
}

func (e *engine) Wait(requests []nixl.Request, statuses []int32, timeout time.Duration, wake *atomic.Uint32) {
	const pause = 50 * time.Microsecond
	for begin := time.Now(); ; time.Sleep(pause) { //nolint:forbidigo // as the shim waits in C
		if e.poll(requests, statuses) || wake.Load() != 0 || time.Since(begin) >= timeout {
			return
		}
	}
}

// poll fills statuses, and reports whether the caller need not wait.
func (e *engine) poll(requests []nixl.Request, statuses []int32) (ended bool) {
	if e.lock() != nil {
		return true
	}
	defer e.net.mu.Unlock()
	for i, r := range requests {
		status := r.(*request).status
		statuses[i] = int32(status)
		ended = ended || status != cgo.ErrInProgress
	}
	return ended
}

// Destroy ends the engine: its waiting copies never happen.
func (e *engine) Destroy() error {
	if err := e.lock(); err != nil {
		return err
	}
	until := e.net.blockDestroy
	e.net.mu.Unlock()
	if until != nil {
		<-until
	}
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	e.dead = true
	if e.net.engines[e.name] == e {
		delete(e.net.engines, e.name)
	}
	return nil
}
