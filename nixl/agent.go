package nixl

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/cgo"
)

var (
	// ErrClosed is returned by the methods of a closed object.
	ErrClosed = errors.New("nixl: closed")
	// ErrDown is returned while a replacement agent cannot be created, for a reason that the
	// error names; creation is retried.
	ErrDown = errors.New("nixl: agent is down")
	// ErrStuck is returned by Close when the library does not end an agent. The agent's memory
	// stays mapped until the process ends.
	ErrStuck = errors.New("nixl: agent does not end")
)

// Config configures an agent. The zero value is an agent over UCX.
type Config struct {
	// Name begins the agent's name; "" is the host's. A suffix makes it unique, since no two
	// agents may ever share a name, not even a process and its successor.
	Name    string
	Backend string // plugin of the library; "" is UCX

	MaxDescriptors int           // in one library request; 0 is 2,048
	MaxBytes       int           // in one library request; 0 is 64 MiB
	Depth          int           // library requests of one transfer in progress at a time; 0 is 4
	Timeout        time.Duration // of a transfer, beside its context's; 0 is 30 s

	// AbandonTimeout is the time that an abandoned transfer may take to end by itself before a
	// new library agent replaces this one; 0 is 30 s. A transfer with a dead peer gets no such
	// time.
	AbandonTimeout time.Duration
	Log            *slog.Logger // nil discards
}

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name, _ = os.Hostname()
	}
	c.Name = fmt.Sprintf("%.200s", c.Name)
	c.Backend = cmp.Or(c.Backend, "UCX")
	c.MaxDescriptors = cmp.Or(c.MaxDescriptors, 2048)
	c.MaxBytes = cmp.Or(c.MaxBytes, 64<<20)
	c.Depth = cmp.Or(c.Depth, 4)
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	c.AbandonTimeout = cmp.Or(c.AbandonTimeout, 30*time.Second)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Agent moves memory from and to peers, by one library agent at a time. Where a transfer cannot
// be ended otherwise, a new library agent with a new name replaces the old one. Memory and
// loaded peers stay; peers that had loaded this agent must load its metadata again.
type Agent struct {
	cfg    Config
	fabric Fabric
	unique string

	calls     chan func(*executor)     // buffered: queued before the executor is woken
	done      chan struct{}            // closed by Close
	ended     chan struct{}            // closed by the last executor
	executors atomic.Int32             // not yet ended
	present   atomic.Pointer[executor] // takes the calls
	stop      sync.Once

	generation atomic.Uint64
	counters   counters
	memories   memoryTable

	// The next two belong to the present executor.
	remotes         map[string]*Remote
	lastReplacement time.Time

	mu  sync.Mutex
	err error // of destroyed agents; guarded by mu
}

// NewAgent creates an agent, which over UCX takes up to a second. The caller closes it.
func NewAgent(f Fabric, cfg Config) (*Agent, error) {
	cfg = cfg.withDefaults()
	a := &Agent{
		cfg:      cfg,
		fabric:   f,
		unique:   uniqueName(cfg.Name),
		calls:    make(chan func(*executor), 64),
		done:     make(chan struct{}),
		ended:    make(chan struct{}),
		memories: memoryTable{registered: map[uint32]*Memory{}},
		remotes:  map[string]*Remote{},
	}
	a.executors.Store(1)
	created := make(chan error)
	go execute(a, created)
	if err := <-created; err != nil {
		<-a.ended
		return nil, fmt.Errorf("cannot create agent %q with backend %s: %w%s", cfg.Name, cfg.Backend, err, explain(err))
	}
	return a, nil
}

// uniqueName appends the process ID and 48 random bits.
func uniqueName(name string) string {
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails since Go 1.24
	return fmt.Sprintf("%s-%d-%s", name, os.Getpid(), hex.EncodeToString(random[:]))
}

// explain adds the likely reason of a failed creation, since the library reports every failure
// as one status.
func explain(err error) string {
	home, unset := os.UserHomeDir()
	if !errors.Is(err, cgo.ErrBackend) || unset != nil {
		return ""
	}
	if _, err := os.ReadDir(home); err != nil {
		return fmt.Sprintf(" ($HOME cannot be read, which NIXL needs: %v)", err)
	}
	return ""
}

// nameOf is the library agent's name in a generation.
func (a *Agent) nameOf(generation uint64) string { return fmt.Sprintf("%s-%d", a.unique, generation) }

// Name is the present name, by which peers know the agent.
func (a *Agent) Name() string { return a.nameOf(a.generation.Load()) }

// Stats returns the present numbers. It never waits for the library.
func (a *Agent) Stats() (s Stats) {
	a.counters.add(func(sum *Stats) { s = *sum })
	if e := a.present.Load(); e != nil {
		if d, ok := e.engine.(downEngine); ok {
			s.Down = d.err.Error()
		}
	}
	return s
}

// do runs call on the executor and waits for its end.
func (a *Agent) do(call func(*executor)) error {
	finished := make(chan struct{})
	wrapped := func(e *executor) {
		defer close(finished)
		call(e)
	}
	if !a.send(wrapped) {
		return ErrClosed
	}
	select {
	case <-finished:
		return nil
	case <-a.ended:
	}
	select {
	case <-finished:
		return nil
	default:
		return ErrClosed
	}
}

// send queues a call for the executor. It returns false after Close.
func (a *Agent) send(call func(*executor)) bool {
	if a.isClosed() {
		return false
	}
	select {
	case a.calls <- call:
		a.wakeUp()
		return true
	case <-a.done:
		return false
	}
}

// wakeUp interrupts the executor's wait in the library.
func (a *Agent) wakeUp() {
	if e := a.present.Load(); e != nil {
		e.wake.Store(1)
	}
}

func (a *Agent) isClosed() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// Metadata returns the bytes that a peer loads to reach this agent and the memory registered
// now.
func (a *Agent) Metadata() ([]byte, error) {
	var data []byte
	var err error
	if closed := a.do(func(e *executor) { data, err = e.metadata() }); closed != nil {
		return nil, closed
	}
	if err != nil {
		return nil, fmt.Errorf("cannot get metadata of agent %q: %w", a.Name(), err)
	}
	return data, nil
}

// closeTimeout bounds the wait for the library to end an agent, which takes milliseconds.
const closeTimeout = 15 * time.Second

// Close ends the transfers in progress, destroys the agent and ends its goroutine. All memory
// is settled when it returns. Later calls do nothing and return the same.
func (a *Agent) Close() error {
	a.stop.Do(func() {
		close(a.done)
		a.wakeUp()
	})
	timeout := time.NewTimer(closeTimeout)
	defer timeout.Stop()
	select {
	case <-a.ended:
	case <-timeout.C:
		return fmt.Errorf("%w: %q", ErrStuck, a.Name())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

func (a *Agent) addError(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = errors.Join(a.err, err)
}
