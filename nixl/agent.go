package nixl

import (
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
	// ErrClosed is returned by the methods of what was closed.
	ErrClosed = errors.New("nixl: closed")
	// ErrDown is returned while an agent could not be created again, for a reason that the error names; it is tried again.
	ErrDown = errors.New("nixl: agent is down")
	// ErrStuck is returned by Close when the library did not let an agent end. Its memory stays mapped for ever.
	ErrStuck = errors.New("nixl: agent does not end")
)

// noBackend is an agent that can only list plugins.
const noBackend = "none"

// Config says what an agent shall be. The zero value is one over UCX.
type Config struct {
	// Name begins the agent's name, "" is the host's. What follows makes it unique: no two agents may ever share a name, not even a
	// process and the one that takes its place.
	Name    string
	Backend string            // plugin of the library, "" is UCX
	Params  map[string]string // of the backend

	// Telemetry lets the library measure each request: see Transfer.Telemetry.
	Telemetry bool

	MaxDescriptors int           // of one request of the library; 0 is 2,048
	MaxBytes       int           // of one request of the library; 0 is 64 MiB
	Depth          int           // requests of one transfer that are under way at a time; 0 is 4
	Timeout        time.Duration // of a transfer from its post, whatever its context says; 0 is 30 s

	// QuarantineAge is how long memory waits for a transfer that was given up before a new agent takes the place of this one; 0 is 30 s.
	// Where the peer is known to be dead it is not waited for.
	QuarantineAge time.Duration
	Log           *slog.Logger // nil is none
}

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name, _ = os.Hostname()
	}
	c.Name = fmt.Sprintf("%.200s", c.Name)
	if c.Backend == "" {
		c.Backend = "UCX"
	}
	c.MaxDescriptors = positive(c.MaxDescriptors, 2048)
	c.MaxBytes = positive(c.MaxBytes, 64<<20)
	c.Depth = positive(c.Depth, 4)
	c.Timeout = positive(c.Timeout, 30*time.Second)
	c.QuarantineAge = positive(c.QuarantineAge, 30*time.Second)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func positive[T int | time.Duration](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}

// Agent moves memory from and to peers. Behind it is one agent of the library at a time: where a transfer cannot be ended otherwise, the library's
// agent is replaced by a new one, with a new name. Memory and peers stay; what this agent's own peers had loaded of it does not.
type Agent struct {
	cfg    Config
	fabric Fabric
	unique string

	calls   chan func(*owner)     // buffered, so that the owner can be woken after a call is in it
	done    chan struct{}         // closed by Close
	ended   chan struct{}         // closed by the last owner
	owners  atomic.Int32          // that have not ended
	present atomic.Pointer[owner] // the one that takes calls
	stop    sync.Once

	generation atomic.Uint64
	counters   counters

	// What follows belongs to the present owner.
	remotes      map[string]*Remote
	nextID       uint32
	lastHandover time.Time

	mu       sync.Mutex
	memories map[uint32]*Memory // guarded by mu
	idle     []*Memory          // closed and not used any more: the present owner frees them; guarded by mu
	err      error              // of the destructions; guarded by mu
}

// NewAgent creates an agent, which over UCX takes up to a second. The caller closes it.
func NewAgent(f Fabric, cfg Config) (*Agent, error) {
	var unique [6]byte
	if _, err := rand.Read(unique[:]); err != nil {
		return nil, err
	}
	a := &Agent{
		cfg:      cfg.withDefaults(),
		fabric:   f,
		unique:   hex.EncodeToString(unique[:]),
		calls:    make(chan func(*owner), 64), // as many callers find the owner busy without waiting twice
		done:     make(chan struct{}),
		ended:    make(chan struct{}),
		memories: map[uint32]*Memory{},
		remotes:  map[string]*Remote{},
	}
	a.owners.Store(1)
	created := make(chan error)
	go a.own(created)
	if err := <-created; err != nil {
		<-a.ended
		return nil, fmt.Errorf("cannot create agent %q with backend %s: %w%s", a.cfg.Name, a.cfg.Backend, err, whyNoAgent(err))
	}
	return a, nil
}

// whyNoAgent adds what the library does not say: it answers every failure with one status.
func whyNoAgent(err error) string {
	home, unset := os.UserHomeDir()
	if !errors.Is(err, cgo.ErrBackend) || unset != nil {
		return ""
	}
	if _, err := os.ReadDir(home); err != nil {
		return fmt.Sprintf(" ($HOME cannot be read, which NIXL needs: %v)", err)
	}
	return ""
}

// nameOf is the name of the library's agent in a generation.
func (a *Agent) nameOf(generation uint64) string {
	return fmt.Sprintf("%s-%d-%s-%d", a.cfg.Name, os.Getpid(), a.unique, generation)
}

// Name is the present name, by which peers know the agent.
func (a *Agent) Name() string { return a.nameOf(a.generation.Load()) }

// Generation counts the library's agents that were behind this one. When it changes, peers need Metadata again.
func (a *Agent) Generation() uint64 { return a.generation.Load() }

// do runs call on the owner and waits for its end.
func (a *Agent) do(call func(*owner)) error {
	finished := make(chan struct{})
	wrapped := func(o *owner) {
		defer close(finished)
		call(o)
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

// send queues a call for the owner. It returns false after Close.
func (a *Agent) send(call func(*owner)) bool {
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

// wakeUp makes an owner that waits in the library come back.
func (a *Agent) wakeUp() {
	if o := a.present.Load(); o != nil {
		o.wake.Store(1)
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

// Plugins returns the names of the transfer plugins that the agent can load.
func (a *Agent) Plugins() ([]string, error) {
	var names []string
	var err error
	if closed := a.do(func(o *owner) { names, err = o.engine.plugins() }); closed != nil {
		return nil, closed
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list plugins of agent %q: %w", a.Name(), err)
	}
	return names, nil
}

// Metadata returns what a peer needs to reach this agent and the memory that is registered now.
func (a *Agent) Metadata() ([]byte, error) {
	var data []byte
	var err error
	if closed := a.do(func(o *owner) { data, err = o.metadata() }); closed != nil {
		return nil, closed
	}
	if err != nil {
		return nil, fmt.Errorf("cannot get metadata of agent %q: %w", a.Name(), err)
	}
	return data, nil
}

// closePatience is how long the library gets to end an agent. It takes milliseconds where nothing is wrong.
const closePatience = 15 * time.Second

// Close ends the transfers that are under way, destroys the agent and ends its goroutine. Memory is settled when it
// returns. Later calls do nothing and return the same.
func (a *Agent) Close() error {
	a.stop.Do(func() {
		close(a.done)
		a.wakeUp()
	})
	patience := time.NewTimer(closePatience)
	defer patience.Stop()
	select {
	case <-a.ended:
	case <-patience.C:
		return fmt.Errorf("%w: %q", ErrStuck, a.Name())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

func (a *Agent) setErr(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = errors.Join(a.err, err)
}
