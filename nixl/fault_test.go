//go:build cgo && linux

package nixl_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

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
	if err != nil {
		t.Fatal(err)
	}
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
// served. It is killed beside a read, the first one or a later one.
func TestPeerKilled(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			v := newFaultTest(t, transport.tls)
			for seed := range uint64(2) {
				moved, err := v.untilFault(t, func(nth int) {
					if nth == int(3*seed) {
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
				v.meet(t, seed+10)
			}
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
	eventually(t, "abandoned", func() bool { return v.agent.Stats().AbandonedBytes == faultBytes })
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

// TestGarbageMetadata: garbage with a wrong header or checksum never reaches the library.
func TestGarbageMetadata(t *testing.T) {
	v := newFaultTest(t, "")
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 2000 {
		bad := slices.Clone(v.peer.metadata)
		switch i % 3 {
		case 0:
			bad[random.IntN(len(bad))] ^= byte(1 + random.IntN(255))
		case 1:
			bad = bad[:random.IntN(len(bad))]
		default:
			for j := range bad {
				bad[j] = byte(random.Uint32())
			}
		}
		if _, err := v.agent.Load(bad); !errors.Is(err, nixl.ErrMetadata) {
			t.Fatalf("Load of garbage = %v, want %v", err, nixl.ErrMetadata)
		}
	}
	for _, blob := range [][]byte{nil, []byte("garbage"), bytes.Repeat([]byte{0xff}, 500), make([]byte, 500)} {
		packed := nixl.EncodeMetadata("someone", nil, blob)
		if _, err := v.agent.Load(packed); err == nil {
			t.Errorf("Load of library metadata %.10q = nil", blob)
		}
	}
	v.readAll(t, 1)
}

// TestOutOfRange: neither a wrong offset nor a peer that promises more than it has does harm.
func TestOutOfRange(t *testing.T) {
	v := newFaultTest(t, "")
	theirs := v.remote.Memories()[0]
	for _, p := range []nixl.Piece{{Local: 1, Len: faultBytes}, {Remote: 1, Len: faultBytes}, {Local: 1 << 63, Remote: 1 << 63, Len: 1 << 63}, {Len: faultBytes + 1}} {
		if _, err := v.remote.Prepare(nixl.Read, v.memory, theirs, []nixl.Piece{p}); !errors.Is(err, nixl.ErrRange) {
			t.Errorf("Prepare(%+v) = %v, want %v", p, err, nixl.ErrRange)
		}
	}
	name, list, blob, err := nixl.DecodeMetadata(v.peer.metadata)
	if err != nil {
		t.Fatal(err)
	}
	list[0].Len *= 1 << 10
	liar, err := v.agent.Load(nixl.EncodeMetadata(name, list, blob))
	if err != nil {
		t.Fatal(err)
	}
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
			v.meet(t, 5)
		})
	}
}

// TestUnreadableHome: the library needs $HOME to be readable or absent, without naming it in an
// error. It reads $HOME once in a process.
func TestUnreadableHome(t *testing.T) {
	library := nixltest.Library(t)
	loop := filepath.Join(t.TempDir(), "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(withDeadline(t), os.Args[0])
	cmd.Env = append(os.Environ(), peerEnv+"=4096 1", nixl.EnvLibrary+"="+library, "HOME="+loop)
	out, err := cmd.Output()
	if err == nil || !bytes.Contains(out, []byte("$HOME cannot be read")) {
		t.Errorf("an agent without a readable home: %v, %q, want an error that names $HOME", err, out)
	}
}
