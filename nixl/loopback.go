package nixl

import (
	"bytes"
	"encoding/binary"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/cgo"
)

// Loopback is a fabric within this process, in Go, with the rules of the real one: one thread an agent, no way to stop a request, errors that say little.
// Tests use it, and make it fail by Hook, Kill and Refuse.
type Loopback struct {
	mu      sync.Mutex // guards all below, and every copy
	engines map[string]*loop
	hook    func(LoopbackRequest) Fate
	refuse  error
	hang    <-chan struct{}
}

// LoopbackRequest is what a hook is asked about.
type LoopbackRequest struct {
	Op    Op
	From  string // the agent that asks
	To    string
	Bytes uint64
	Index int // of the request among all of its agent
}

// Fate is what becomes of a request. The zero value is that it is done at once.
type Fate struct {
	Err   cgo.StatusError // it fails, in the post
	Late  cgo.StatusError // it fails when it is over
	Until <-chan struct{} // it is over when this is closed, and its bytes move then; nil is at once
}

// NewLoopback makes a fabric without agents.
func NewLoopback() *Loopback { return &Loopback{engines: map[string]*loop{}} }

// Hook lets f decide about each request; nil is the zero Fate for all. It runs on the owner's goroutine and must not call the fabric.
func (l *Loopback) Hook(f func(LoopbackRequest) Fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hook = f
}

// Refuse makes every new agent fail with err, until nil.
func (l *Loopback) Refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = err
}

// HangDestroy makes every destruction wait for a channel; nil is no wait.
func (l *Loopback) HangDestroy(until <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hang = until
}

// Kill lets the process of an agent die, as its peers see it.
func (l *Loopback) Kill(a *Agent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.engines, a.Name())
}

func (l *Loopback) open(cfg *Config, name string) (engine, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		return nil, l.refuse
	}
	e := &loop{net: l, name: name, thread: unix.Gettid(), known: map[string]map[uint64]uint64{}, memory: map[uint64][]byte{}, telemetric: cfg.Telemetry}
	l.engines[name] = e
	return e, nil
}

// loop is an engine of a Loopback. Its fields are guarded by the fabric's lock.
type loop struct {
	net        *Loopback
	name       string
	thread     int
	telemetric bool
	memory     map[uint64][]byte            // by address
	known      map[string]map[uint64]uint64 // peers, and their memories' lengths by address
	inbox      []cgo.Note
	posted     int
	dead       bool
}

var _ engine = (*loop)(nil)

// enter begins each call. An agent's calls come from one thread, as the real library wants them.
func (e *loop) enter() error {
	e.net.mu.Lock()
	if e.dead || unix.Gettid() != e.thread {
		e.net.mu.Unlock()
		return cgo.ErrInvalidState
	}
	return nil
}

func (e *loop) plugins() ([]string, error) { return []string{"LOOPBACK"}, nil }

func (e *loop) register(m *Memory) error {
	if err := e.enter(); err != nil {
		return err
	}
	defer e.net.mu.Unlock()
	if m.kind != cgo.Host {
		return cgo.ErrBackend
	}
	e.memory[m.region.Addr] = m.mapping.data
	return nil
}

func (e *loop) deregister(m *Memory) error {
	if err := e.enter(); err != nil {
		return err
	}
	defer e.net.mu.Unlock()
	delete(e.memory, m.region.Addr)
	return nil
}

// metadata is the name, a zero byte, and address and length of each memory.
func (e *loop) metadata() ([]byte, error) {
	if err := e.enter(); err != nil {
		return nil, err
	}
	defer e.net.mu.Unlock()
	blob := append([]byte(e.name), 0)
	for addr, data := range e.memory {
		blob = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(blob, addr), uint64(len(data)))
	}
	return blob, nil
}

func (e *loop) load(blob []byte) (string, error) {
	if err := e.enter(); err != nil {
		return "", err
	}
	defer e.net.mu.Unlock()
	name, list, ok := bytes.Cut(blob, []byte{0})
	if !ok || len(list)%16 != 0 {
		return "", cgo.ErrBackend
	}
	memories := map[uint64]uint64{}
	for ; len(list) > 0; list = list[16:] {
		memories[binary.LittleEndian.Uint64(list)] = binary.LittleEndian.Uint64(list[8:])
	}
	e.known[string(name)] = memories
	return string(name), nil
}

func (e *loop) invalidate(peer string) error {
	if err := e.enter(); err != nil {
		return err
	}
	defer e.net.mu.Unlock()
	if _, ok := e.known[peer]; !ok {
		return cgo.ErrNotFound
	}
	delete(e.known, peer)
	return nil
}

func (e *loop) notify(peer string, message []byte) error {
	if err := e.enter(); err != nil {
		return err
	}
	defer e.net.mu.Unlock()
	if _, ok := e.known[peer]; !ok {
		return cgo.ErrNotFound
	}
	e.deliver(peer, message)
	return nil
}

func (e *loop) deliver(peer string, message []byte) {
	if to := e.net.engines[peer]; to != nil {
		to.inbox = append(to.inbox, cgo.Note{Peer: strings.Clone(e.name), Data: bytes.Clone(message)})
	}
}

func (e *loop) notes() ([]cgo.Note, error) {
	if err := e.enter(); err != nil {
		return nil, err
	}
	defer e.net.mu.Unlock()
	notes := e.inbox
	e.inbox = nil
	return notes, nil
}

func (e *loop) telemetry(r request) (cgo.Telemetry, error) {
	if !e.telemetric {
		return cgo.Telemetry{}, cgo.ErrNoTelemetry
	}
	f := r.(*loopFlight)
	return cgo.Telemetry{Bytes: f.bytes, Descriptors: uint64(len(f.local))}, nil
}

func (e *loop) wait(requests []request, statuses []int32, timeout time.Duration, wake *atomic.Uint32) int {
	const nap = 50 * time.Microsecond
	for begin := time.Now(); ; time.Sleep(nap) { //nolint:forbidigo // as the shim waits in C
		if err := e.enter(); err != nil {
			return 0
		}
		ended := 0
		for i, r := range requests {
			statuses[i] = int32(r.(*loopFlight).status)
			if r.(*loopFlight).status != cgo.ErrInProgress {
				ended++
			}
		}
		e.net.mu.Unlock()
		if ended > 0 || wake.Load() != 0 || time.Since(begin) >= timeout {
			return ended
		}
	}
}

// destroy ends the engine: copies that wait do not happen any more.
func (e *loop) destroy() error {
	if err := e.enter(); err != nil {
		return err
	}
	hang := e.net.hang
	e.net.mu.Unlock()
	if hang != nil {
		<-hang
	}
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	e.dead = true
	if e.net.engines[e.name] == e {
		delete(e.net.engines, e.name)
	}
	return nil
}
