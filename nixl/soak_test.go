//go:build cgo && linux && soak

package nixl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/nixl"
	"github.com/warmpath/warmpath/nixl/nixltest"
)

// soakEnv is the time that TestSoak runs over each transport, as "10m"; without it, soakLength.
const soakEnv, soakLength = "WARMPATH_NIXL_SOAK", time.Minute

const (
	soakPeers     = 3
	soakReaders   = 4
	soakPages     = 1024 // of each peer, and of each reader's part of the memory
	soakPartBytes = soakPages * pageBytes
)

// soakPeer is a peer that lives for a while.
type soakPeer struct {
	*peer
	remote *nixl.Remote
	seed   uint64
}

// soak reads from peers that are killed.
type soak struct {
	library string
	agent   *nixl.Agent
	memory  *nixl.Memory
	peers   [soakPeers]atomic.Pointer[soakPeer]

	reads, faults, pages, kills, stops atomic.Int64
}

// replace starts a peer in the place of another. Each has a seed of its own.
func (s *soak) replace(tb testing.TB, i int) {
	tb.Helper()
	seed := uint64(s.kills.Load()+1)*soakPeers + uint64(i)
	p := startPeer(tb, s.library, soakPartBytes, seed)
	remote, err := s.agent.Load(p.metadata)
	require.NoError(tb, err)
	s.peers[i].Store(&soakPeer{p, remote, seed})
}

// TestSoak reads pages from processes that are killed and stopped at random. It checks each
// page that was read, and that none is written after its transfer was settled.
func TestSoak(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) { runSoak(t, transport.tls) })
	}
}

func runSoak(t *testing.T, tls string) {
	t.Helper()
	library := nixltest.Library(t)
	length := soakLength
	if text := os.Getenv(soakEnv); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	if tls != "" {
		t.Setenv("UCX_TLS", tls)
	}
	s := &soak{library: library}
	s.agent, s.memory = realAgent(t, library, soakReaders*soakPartBytes)
	for i := range soakPeers {
		s.replace(t, i)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range soakReaders {
		wg.Go(func() {
			if err := s.read(t.Context(), i, stop); err != nil {
				t.Error(err)
			}
		})
	}
	tried := func() bool { return s.reads.Load() > 0 && s.kills.Load() > 0 }
	for begin := time.Now(); !t.Failed() && (time.Since(begin) < length || !tried() && time.Since(begin) < length+4*patience); {
		time.Sleep(100*time.Millisecond + rand.N(900*time.Millisecond))
		s.harm(t, rand.IntN(soakPeers))
	}
	close(stop)
	wg.Wait()
	t.Logf("%d reads of %d pages, %d faults, %d kills, %d stops; %+v", s.reads.Load(), s.pages.Load(), s.faults.Load(), s.kills.Load(), s.stops.Load(), s.agent.Stats())
	if !tried() {
		t.Error("nothing was read, or nobody killed")
	}
}

// harm kills a peer, one in three times after it was stopped for a while; it may also go on.
func (s *soak) harm(tb testing.TB, i int) {
	tb.Helper()
	p := s.peers[i].Load()
	if rand.IntN(3) == 0 {
		s.stops.Add(1)
		_ = p.cmd.Process.Signal(syscall.SIGSTOP)
		time.Sleep(rand.N(700 * time.Millisecond))
		if rand.IntN(2) == 0 {
			_ = p.cmd.Process.Signal(syscall.SIGCONT)
			return
		}
	}
	p.kill()
	p.remote.Fail(os.ErrProcessDone)
	s.kills.Add(1)
	s.replace(tb, i)
}

// read moves random pages into its own part of the memory.
func (s *soak) read(ctx context.Context, part int, stop <-chan struct{}) error {
	base := uint64(part * soakPartBytes)
	mine := s.memory.Bytes()[base:][:soakPartBytes]
	want := make([]byte, pageBytes)
	for isOpen(stop) {
		p := s.peers[rand.IntN(soakPeers)].Load()
		order := rand.Perm(soakPages)[:1+rand.IntN(soakPages)]
		if rand.IntN(2) == 0 { // adjacent on both sides, to be merged
			for i := range order {
				order[i] = i
			}
		}
		pieces := make([]nixl.Piece, len(order))
		for slot, page := range order {
			pieces[slot] = nixl.Piece{Local: base + uint64(slot)*pageBytes, Remote: uint64(page) * pageBytes, Len: pageBytes}
		}
		time.Sleep(rand.N(20 * time.Millisecond)) // leaves CPU to other processes
		limit, cancel := context.WithTimeout(ctx, 3*time.Second)
		moved, err := read(limit, p.remote, s.memory, pieces...)
		cancel()
		if err != nil {
			s.faults.Add(1)
			if err := s.quiet(moved, mine); err != nil {
				return err
			}
			continue
		}
		s.reads.Add(1)
		for slot, page := range order {
			pattern(want, p.seed, uint64(page))
			if !bytes.Equal(mine[slot*pageBytes:][:pageBytes], want) {
				return fmt.Errorf("page %d of peer %d is wrong", page, p.seed)
			}
		}
		s.pages.Add(int64(len(order)))
	}
	return nil
}

// quiet waits until a failed read is settled, and checks that no byte is written after that.
func (s *soak) quiet(moved *nixl.Transfer, mine []byte) error {
	if moved == nil {
		time.Sleep(time.Millisecond)
		return nil
	}
	select {
	case <-moved.Settled():
	case <-time.After(2 * patience):
		return fmt.Errorf("not settled in %v: %+v", 2*patience, s.agent.Stats())
	}
	for i := range mine {
		mine[i] = 0xa5
	}
	time.Sleep(rand.N(50 * time.Millisecond))
	if len(bytes.Trim(mine, "\xa5")) != 0 {
		return errors.New("bytes came into settled memory")
	}
	return nil
}
