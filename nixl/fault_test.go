//go:build cgo && linux

package nixl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/testkit"
	"github.com/warmpath/warmpath/nixl"
	"github.com/warmpath/warmpath/nixl/nixltest"
)

// transports are those of UCX between processes of one machine: CMA by default, where the
// reading process copies, and TCP, where both do.
var transports = []struct{ name, tls string }{{"cma", ""}, {"tcp", "tcp"}}

const faultBytes = 16 << 20

// faultTest is an agent of the real library and a peer process that suffers faults.
type faultTest struct {
	library string
	tls     string
	agent   *nixl.Agent
	memory  *nixl.Memory
	peer    *peer
	remote  *nixl.Remote
}

func newFaultTest(t *testing.T, tls string) *faultTest {
	t.Helper()
	v := &faultTest{library: nixltest.Library(t), tls: tls}
	if tls != "" {
		t.Setenv("UCX_TLS", tls)
	}
	v.agent, v.memory = realAgent(t, v.library, faultBytes)
	v.meet(t, 1)
	return v
}

// meet starts a peer in the place of its predecessor, and reads all of its memory.
func (v *faultTest) meet(t *testing.T, seed uint64) {
	t.Helper()
	v.peer = startPeer(t, v.library, faultBytes, seed)
	remote, err := v.agent.Load(v.peer.metadata)
	require.NoError(t, err)
	v.remote = remote
	v.readAll(t, seed)
}

func (v *faultTest) readAll(t *testing.T, seed uint64) {
	t.Helper()
	clear(v.memory.Bytes())
	if _, err := read(withDeadline(t), v.remote, v.memory, nixl.Piece{Len: faultBytes}); err != nil {
		t.Fatal(err)
	}
	want := make([]byte, faultBytes)
	fill(want, seed)
	if !bytes.Equal(v.memory.Bytes(), want) {
		t.Fatal("the bytes read are not those of the peer")
	}
}

// untilFault reads until a read fails, each for a second at most. begin is told before each.
func (v *faultTest) untilFault(t *testing.T, begin func(nth int)) (*nixl.Transfer, error) {
	t.Helper()
	nth := 0
	for end := time.Now().Add(patience); time.Now().Before(end); nth++ {
		begin(nth)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		moved, err := read(ctx, v.remote, v.memory, nixl.Piece{Len: faultBytes})
		cancel()
		if err != nil {
			return moved, err
		}
	}
	t.Fatalf("no fault in %v", patience)
	return nil, nil
}

// TestPeerKilled: transfers with it fail at once, its memory is settled, and its successor is
// served. It is killed beside the first read over CMA, and beside a later one over TCP.
func TestPeerKilled(t *testing.T) {
	for i, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			v := newFaultTest(t, transport.tls)
			moved, err := v.untilFault(t, func(nth int) {
				if nth == 3*i {
					go func(p *peer) { _ = p.cmd.Process.Kill() }(v.peer)
				}
			})
			if !errors.Is(err, nixl.ErrPeer) && !errors.Is(err, nixl.ErrTimeout) {
				t.Fatalf("read = %v, want %v", err, nixl.ErrPeer)
			}
			t.Logf("outcome: %v", err)
			v.remote.Fail(os.ErrProcessDone)
			if moved != nil {
				awaitClosed(t, "settled", moved.Settled())
			}
			v.meet(t, 10)
		})
	}
}

// TestPeerStopped: over CMA a stopped process can be read; over TCP each wait has its end, and
// late bytes do no harm.
func TestPeerStopped(t *testing.T) {
	v := newFaultTest(t, "")
	_ = v.peer.cmd.Process.Signal(syscall.SIGSTOP)
	v.readAll(t, 1)
	v.peer.kill()

	v = newFaultTest(t, "tcp")
	_ = v.peer.cmd.Process.Signal(syscall.SIGSTOP)
	moved, err := v.untilFault(t, func(int) {})
	if !errors.Is(err, nixl.ErrTimeout) {
		t.Fatalf("read = %v, want %v", err, nixl.ErrTimeout)
	}
	testkit.Await(t, "abandoned", func() bool { return v.agent.Stats().AbandonedBytes == faultBytes })
	_ = v.peer.cmd.Process.Signal(syscall.SIGCONT)
	awaitClosed(t, "settled by itself", moved.Settled())
	if s := v.agent.Stats(); s.Replacements != 0 || s.AbandonedBytes != 0 {
		t.Errorf("Stats = %+v, want no new agent", s)
	}
	v.readAll(t, 1)

	_ = v.peer.cmd.Process.Signal(syscall.SIGSTOP)
	moved, _ = v.untilFault(t, func(int) {})
	v.remote.Fail(errors.New("its lease has ended"))
	awaitClosed(t, "settled by the agent's end", moved.Settled())
	if s := v.agent.Stats(); s.Replacements == 0 {
		t.Errorf("Stats = %+v, want a new agent", s)
	}
	marker := bytes.Repeat([]byte{0xa5}, faultBytes)
	copy(v.memory.Bytes(), marker)
	old := v.peer
	_ = old.cmd.Process.Signal(syscall.SIGCONT)
	v.peer = startPeer(t, v.library, faultBytes, 2)
	if !bytes.Equal(v.memory.Bytes(), marker) {
		t.Error("bytes came into memory that was settled")
	}
	v.meet(t, 3)
}

// realAgent is an agent of the real library, with size bytes of memory.
func realAgent(tb testing.TB, library string, size int) (*nixl.Agent, *nixl.Memory) {
	tb.Helper()
	lib, err := nixl.Open(library)
	require.NoError(tb, err)
	return newAgent(tb, lib, nixl.Config{Name: "test"}, size)
}

// TestRealPeer reads and writes, and gives the library what a lying peer would.
func TestRealPeer(t *testing.T) {
	v := newFaultTest(t, "")
	theirs := v.remote.Memories()[0]
	fill(v.memory.Bytes(), 8)
	if _, err := v.remote.Transfer(withDeadline(t), nixl.Write, v.memory, theirs, []nixl.Piece{{Len: faultBytes}}); err != nil {
		t.Fatal(err)
	}
	if got := v.peer.ask(t, fmt.Sprint("sum ", faultBytes), "sum"); got != sum(v.memory.Bytes()) {
		t.Error("the peer does not have the bytes that were written")
	}
	for _, blob := range [][]byte{nil, []byte("garbage"), bytes.Repeat([]byte{0xff}, 500), make([]byte, 500)} {
		if _, err := v.agent.Load(nixl.EncodeMetadata("someone", nil, blob)); err == nil {
			t.Errorf("Load of library metadata %.10q = nil", blob)
		}
	}
	v.readAll(t, 8)
	name, list, blob, err := nixl.DecodeMetadata(v.peer.metadata)
	require.NoError(t, err)
	list[0].Len *= 1 << 10
	liar, err := v.agent.Load(nixl.EncodeMetadata(name, list, blob))
	require.NoError(t, err)
	beyond := nixl.Piece{Remote: list[0].Len - 4096, Len: 4096}
	if _, err := read(withDeadline(t), liar, v.memory, beyond); !errors.Is(err, nixl.ErrPeer) {
		t.Errorf("a read of memory that a peer falsely announces = %v, want %v", err, nixl.ErrPeer)
	}
	v.meet(t, 4)
}

// TestMemoryThatIsGone: the peer has unmapped its memory without new metadata.
func TestMemoryThatIsGone(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			v := newFaultTest(t, transport.tls)
			v.peer.ask(t, "unmap", "unmapped")
			moved, err := v.untilFault(t, func(int) {})
			t.Logf("outcome: %v", err)
			v.remote.Fail(os.ErrClosed)
			if moved != nil {
				awaitClosed(t, "settled", moved.Settled())
			}
		})
	}
}

// TestUnreadableHome: the library needs $HOME to be readable or absent, without naming it in an
// error. It reads $HOME once in a process.
func TestUnreadableHome(t *testing.T) {
	library := nixltest.Library(t)
	loop := filepath.Join(t.TempDir(), "loop")
	require.NoError(t, os.Symlink(loop, loop))
	cmd := exec.CommandContext(withDeadline(t), os.Args[0])
	cmd.Env = append(os.Environ(), peerEnv+"=4096 1", nixl.EnvLibrary+"="+library, "HOME="+loop)
	out, err := cmd.Output()
	if err == nil || !bytes.Contains(out, []byte("$HOME cannot be read")) {
		t.Errorf("an agent without a readable home: %v, %q, want an error that names $HOME", err, out)
	}
}
