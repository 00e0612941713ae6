package nixl_test

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/cgo"
	"github.com/warmpath/warmpath/dataplane/testkit"
	"github.com/warmpath/warmpath/nixl"
	"github.com/warmpath/warmpath/nixl/nixltest"
)

// agentPair is an agent and a peer on a Loopback with equal sizes of memory; the peer's is
// filled with seed 1.
type agentPair struct {
	net          *nixltest.Loopback
	mine, theirs *nixl.Agent
	local, peers *nixl.Memory
	remote       *nixl.Remote
	held         atomic.Int64 // requests that wait
}

func newPair(tb testing.TB, cfg nixl.Config, size int) *agentPair {
	tb.Helper()
	c := &agentPair{net: nixltest.NewLoopback()}
	c.theirs, c.peers = newAgent(tb, c.net, nixl.Config{Name: "theirs"}, size)
	c.mine, c.local = newAgent(tb, c.net, cfg, size)
	c.remote = load(tb, c.mine, c.theirs)
	fill(c.peers.Bytes(), 1)
	return c
}

// hold makes requests wait until release is called, at the latest at the end of the test.
func (c *agentPair) hold(tb testing.TB) (release func()) {
	tb.Helper()
	until := make(chan struct{})
	c.net.OnPost(func(nixltest.Request) nixltest.Outcome {
		c.held.Add(1)
		return nixltest.Outcome{Until: until}
	})
	release = func() {
		if isOpen(until) {
			close(until)
		}
	}
	tb.Cleanup(release)
	return release
}

// start posts a read, and waits until hold has seen it.
func (c *agentPair) start(tb testing.TB, memory *nixl.Memory) *nixl.Transfer {
	tb.Helper()
	before := c.held.Load()
	moved, err := c.remote.Prepare(nixl.Read, memory, c.remote.Memories()[0], []nixl.Piece{{Len: memory.Len()}})
	require.NoError(tb, err)
	require.NoError(tb, moved.Post())
	testkit.Await(tb, "posted", func() bool { return c.held.Load() > before })
	return moved
}

// TestSplitTransfers moves pieces of many sizes by many requests.
func TestSplitTransfers(t *testing.T) {
	const size = 1 << 20
	c := newPair(t, nixl.Config{MaxDescriptors: 7, MaxBytes: 10_000, Depth: 3}, size)
	want := bytes.Clone(c.local.Bytes())
	var pieces []nixl.Piece
	for i := uint64(0); i+300 < size; i += 997 {
		pieces = append(pieces, nixl.Piece{Local: i, Remote: size - 300 - i, Len: 1 + i%300})
		copy(want[i:], c.peers.Bytes()[size-300-i:][:1+i%300])
	}
	moved, err := c.remote.Transfer(withDeadline(t), nixl.Read, c.local, c.remote.Memories()[0], pieces)
	if err != nil || !bytes.Equal(c.local.Bytes(), want) {
		t.Fatalf("Transfer = %v; the bytes are right: %t", err, bytes.Equal(c.local.Bytes(), want))
	}
	if times := moved.Times(); times.Requests < len(pieces)/7 || times.Pieces < len(pieces) {
		t.Errorf("Times = %+v for %d pieces of which 7 go into a request", times, len(pieces))
	}
	if _, err := c.remote.Transfer(withDeadline(t), nixl.Write, c.local, c.remote.Memories()[0], []nixl.Piece{{Len: size}}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(c.peers.Bytes(), want) {
		t.Error("the peer does not have the bytes that were written")
	}
}

// TestMemoryWaitsForLateBytes gives up a transfer and closes its memory before the bytes move.
func TestMemoryWaitsForLateBytes(t *testing.T) {
	c := newPair(t, nixl.Config{}, 8192)
	release := c.hold(t)
	mapping, err := nixl.NewMapping("late", 8192)
	require.NoError(t, err)
	memory, err := c.mine.Register(mapping)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	moved := c.start(t, memory)
	cancel()
	if err := moved.Wait(ctx); !errors.Is(err, nixl.ErrTimeout) || !errors.Is(err, context.Canceled) {
		t.Fatalf("Wait = %v, want %v", err, nixl.ErrTimeout)
	}
	testkit.Await(t, "abandoned", func() bool { return c.mine.Stats().AbandonedBytes == 8192 })
	require.NoError(t, errors.Join(memory.Close(), mapping.Close()))
	if !isOpen(moved.Settled()) || !mapping.Mapped() {
		t.Fatal("the memory could be reused while bytes were on their way")
	}
	release()
	awaitClosed(t, "settled", moved.Settled())
	testkit.Await(t, "unmapped", func() bool { return !mapping.Mapped() })
	if s := c.mine.Stats(); s.AbandonedNow != 0 || s.AbandonedBytes != 0 || s.Replacements != 0 || s.TimedOut != 1 {
		t.Errorf("Stats = %+v, want no abandoned transfer and no new agent", s)
	}
}

// TestDeadPeer: the agent is replaced, so that no byte of an abandoned transfer can move any
// more.
func TestDeadPeer(t *testing.T) {
	c := newPair(t, nixl.Config{}, 8192)
	other, _ := newAgent(t, c.net, nixl.Config{Name: "other"}, 8192)
	living := load(t, c.mine, other)
	release := c.hold(t)
	before := c.mine.Name()
	moved := c.start(t, c.local)
	lost := errors.New("lease lost")
	c.remote.Fail(lost)
	if err := moved.Wait(withDeadline(t)); !errors.Is(err, nixl.ErrPeer) || !errors.Is(err, lost) {
		t.Errorf("Wait = %v, want %v and %v", err, nixl.ErrPeer, lost)
	}
	awaitClosed(t, "settled", moved.Settled())
	testkit.Await(t, "another agent", func() bool { return c.mine.Name() != before })
	release()
	c.net.OnPost(nil)
	if c.mine.Name() == before || !bytes.Equal(c.local.Bytes(), make([]byte, 8192)) {
		t.Errorf("name %q, was %q; bytes came after the end: %t", c.mine.Name(), before, !bytes.Equal(c.local.Bytes(), make([]byte, 8192)))
	}
	if _, err := read(withDeadline(t), c.remote, c.local, nixl.Piece{Len: 1}); !errors.Is(err, nixl.ErrPeer) {
		t.Errorf("a read from a dead peer = %v, want %v", err, nixl.ErrPeer)
	}
	if _, err := read(withDeadline(t), living, c.local, nixl.Piece{Len: 1}); err != nil {
		t.Errorf("a read from another peer, by the new agent = %v", err)
	}
	if _, err := read(withDeadline(t), load(t, c.mine, c.theirs), c.local, nixl.Piece{Len: 8192}); err != nil {
		t.Errorf("a read from the peer that was not dead = %v", err)
	}
}

// TestFailures: a failed request fails its transfer and its peer, which can be loaded again.
func TestFailures(t *testing.T) {
	over := make(chan struct{})
	close(over)
	tests := []struct {
		name string
		fate nixltest.Outcome
	}{
		{"in the post", nixltest.Outcome{PostErr: cgo.ErrBackend}},
		{"when it is over", nixltest.Outcome{FinalErr: cgo.ErrBackend, Until: over}},
	}
	for _, test := range tests {
		c := newPair(t, nixl.Config{MaxBytes: 4096, Depth: 8}, 5*4096)
		c.net.OnPost(func(r nixltest.Request) nixltest.Outcome {
			if r.Index == 2 {
				return test.fate
			}
			return nixltest.Outcome{}
		})
		moved, err := read(withDeadline(t), c.remote, c.local, nixl.Piece{Len: 5 * 4096})
		if !errors.Is(err, nixl.ErrPeer) || !errors.Is(err, cgo.ErrBackend) {
			t.Errorf("%s: %v, want %v", test.name, err, nixl.ErrPeer)
		}
		awaitClosed(t, test.name+": settled", moved.Settled())
		c.net.OnPost(nil)
		if _, err := read(withDeadline(t), load(t, c.mine, c.theirs), c.local, nixl.Piece{Len: 5 * 4096}); err != nil {
			t.Errorf("%s: after loading it again: %v", test.name, err)
		}
		if !bytes.Equal(c.local.Bytes(), c.peers.Bytes()) {
			t.Errorf("%s: the bytes are wrong", test.name)
		}
	}
}

// TestPeerRestarts: a peer dies and comes back under another name.
func TestPeerRestarts(t *testing.T) {
	c := newPair(t, nixl.Config{}, 4096)
	for life := range 3 {
		next, memory := newAgent(t, c.net, nixl.Config{Name: "theirs"}, 4096)
		fill(memory.Bytes(), uint64(life))
		remote := load(t, c.mine, next)
		if _, err := read(withDeadline(t), remote, c.local, nixl.Piece{Len: 4096}); err != nil || !bytes.Equal(c.local.Bytes(), memory.Bytes()) {
			t.Fatalf("life %d: read = %v", life, err)
		}
		c.net.Kill(next)
		moved, err := read(withDeadline(t), remote, c.local, nixl.Piece{Len: 4096})
		if !errors.Is(err, nixl.ErrPeer) {
			t.Fatalf("life %d: read from a dead peer = %v, want %v", life, err, nixl.ErrPeer)
		}
		awaitClosed(t, "settled", moved.Settled())
	}
}

// TestDown: for a while no new agent can be created.
func TestDown(t *testing.T) {
	c := newPair(t, nixl.Config{}, 4096)
	c.hold(t)
	noHome := errors.New("no home")
	c.net.Refuse(noHome)
	moved := c.start(t, c.local)
	c.remote.Fail(errors.New("dead"))
	awaitClosed(t, "settled without another agent", moved.Settled())
	testkit.Await(t, "down", func() bool { return c.mine.Stats().Down != "" })
	if _, err := c.mine.Metadata(); !errors.Is(err, nixl.ErrDown) || !errors.Is(err, noHome) {
		t.Errorf("Metadata = %v, want %v and its reason", err, nixl.ErrDown)
	}
	c.net.Refuse(nil)
	testkit.Await(t, "up again", func() bool { return c.mine.Stats().Down == "" })
	c.net.OnPost(nil)
	if _, err := read(withDeadline(t), load(t, c.mine, c.theirs), c.local, nixl.Piece{Len: 4096}); err != nil {
		t.Error(err)
	}
}

// TestHangingEnd: the end of an agent hangs, which delays its memory alone.
func TestHangingEnd(t *testing.T) {
	c := newPair(t, nixl.Config{}, 4096)
	c.hold(t)
	before, hang := c.mine.Name(), make(chan struct{})
	c.net.BlockDestroy(hang)
	moved := c.start(t, c.local)
	c.remote.Fail(errors.New("dead"))
	testkit.Await(t, "another agent", func() bool { return c.mine.Name() != before })
	c.net.OnPost(nil)
	if _, err := read(withDeadline(t), load(t, c.mine, c.theirs), c.local, nixl.Piece{Len: 4096}); err != nil {
		t.Error(err)
	}
	if !isOpen(moved.Settled()) {
		t.Error("settled while its agent had not ended")
	}
	c.net.BlockDestroy(nil)
	close(hang)
	awaitClosed(t, "settled", moved.Settled())
}

// TestTimeoutOfTheAgent: the agent's own timeout holds without a deadline of the caller.
func TestTimeoutOfTheAgent(t *testing.T) {
	c := newPair(t, nixl.Config{Timeout: time.Millisecond, AbandonTimeout: time.Millisecond}, 4096)
	c.hold(t)
	moved, err := read(withDeadline(t), c.remote, c.local, nixl.Piece{Len: 1})
	if !errors.Is(err, nixl.ErrTimeout) {
		t.Errorf("read = %v, want %v", err, nixl.ErrTimeout)
	}
	awaitClosed(t, "settled by age", moved.Settled())
	testkit.Await(t, "another agent", func() bool { return c.mine.Stats().Replacements > 0 })
}
