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

// transports are the ways of UCX between processes of one machine: by default CMA, where the asking process copies; and TCP, where both do.
var transports = []struct{ name, tls string }{{"cma", ""}, {"tcp", "tcp"}}

const faultBytes = 16 << 20

// victim is an agent of the real library and a peer process that something happens to.
type victim struct {
	library string
	tls     string
	agent   *nixl.Agent
	memory  *nixl.Memory
	peer    *peer
	remote  *nixl.Remote
}

func newVictim(t *testing.T, tls string) *victim {
	t.Helper()
	v := &victim{library: nixltest.Library(t), tls: tls}
	if tls != "" {
		t.Setenv("UCX_TLS", tls)
	}
	v.agent, v.memory = realAgent(t, v.library, faultBytes)
	v.meet(t, 1)
	return v
}

// meet starts a peer in the place of the one before, and reads all of its memory.
func (v *victim) meet(t *testing.T, seed uint64) {
	t.Helper()
	v.peer = startPeer(t, v.library, faultBytes, seed)
	remote, err := v.agent.Load(v.peer.metadata)
	if err != nil {
		t.Fatal(err)
	}
	v.remote = remote
	v.readAll(t, seed)
}

func (v *victim) readAll(t *testing.T, seed uint64) {
	t.Helper()
	clear(v.memory.Bytes())
	if _, err := read(withDeadline(t), v.remote, v.memory, nixl.Piece{Len: faultBytes}); err != nil {
		t.Fatal(err)
	}
	want := make([]byte, faultBytes)
	fill(want, seed)
	if !bytes.Equal(v.memory.Bytes(), want) {
		t.Fatal("what was read is not what the peer has")
	}
}

// untilFault reads again and again until that fails, each read for a second at most.
func (v *victim) untilFault(t *testing.T) (*nixl.Transfer, error) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
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

// TestPeerKilled: transfers with it fail at once, its memory is settled, and its successor is served.
func TestPeerKilled(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			v := newVictim(t, transport.tls)
			for seed := range uint64(2) {
				go func(p *peer) {
					time.Sleep(rand.N(30 * time.Millisecond))
					_ = p.cmd.Process.Kill()
				}(v.peer)
				moved, err := v.untilFault(t)
				if !errors.Is(err, nixl.ErrPeer) && !errors.Is(err, nixl.ErrTimeout) {
					t.Fatalf("read = %v, want %v", err, nixl.ErrPeer)
				}
				t.Logf("outcome: %v", err)
				v.remote.Fail(os.ErrProcessDone)
				if moved != nil {
					closes(t, "settled", moved.Settled())
				}
				v.meet(t, seed+10)
			}
		})
	}
}

// TestPeerStopped: over CMA a stopped process can be read; over TCP each wait has its end, and the bytes that come later do no harm.
func TestPeerStopped(t *testing.T) {
	v := newVictim(t, "")
	_ = v.peer.cmd.Process.Signal(syscall.SIGSTOP)
	v.readAll(t, 1)
	v.peer.kill()

	v = newVictim(t, "tcp")
	_ = v.peer.cmd.Process.Signal(syscall.SIGSTOP)
	moved, err := v.untilFault(t)
	if !errors.Is(err, nixl.ErrTimeout) {
		t.Fatalf("read = %v, want %v", err, nixl.ErrTimeout)
	}
	eventually(t, "quarantine", func() bool { return v.agent.Stats().BytesInQuarantine == faultBytes })
	_ = v.peer.cmd.Process.Signal(syscall.SIGCONT)
	closes(t, "settled by itself", moved.Settled())
	if s := v.agent.Stats(); s.Handovers != 0 || s.BytesInQuarantine != 0 {
		t.Errorf("Stats = %+v, want no new agent", s)
	}
	v.readAll(t, 1)

	_ = v.peer.cmd.Process.Signal(syscall.SIGSTOP)
	moved, _ = v.untilFault(t)
	v.remote.Fail(errors.New("its lease has ended"))
	closes(t, "settled by the agent's end", moved.Settled())
	if s := v.agent.Stats(); s.Handovers == 0 {
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

// TestGarbageMetadata: nothing of it reaches the library, but for what is well packed.
func TestGarbageMetadata(t *testing.T) {
	v := newVictim(t, "")
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
		packed := nixl.PackMetadata("someone", nil, blob)
		if _, err := v.agent.Load(packed); err == nil {
			t.Errorf("Load of a peer whose library says %.10q = nil", blob)
		}
	}
	v.readAll(t, 1)
}

// TestOutOfRange: neither a wrong offset nor a peer that promises more than it has does harm.
func TestOutOfRange(t *testing.T) {
	v := newVictim(t, "")
	theirs := v.remote.Memories()[0]
	for _, p := range []nixl.Piece{{Local: 1, Len: faultBytes}, {Remote: 1, Len: faultBytes}, {Local: 1 << 63, Remote: 1 << 63, Len: 1 << 63}, {Len: faultBytes + 1}} {
		if _, err := v.remote.Prepare(nixl.Read, v.memory, theirs, []nixl.Piece{p}, nil); !errors.Is(err, nixl.ErrRange) {
			t.Errorf("Prepare(%+v) = %v, want %v", p, err, nixl.ErrRange)
		}
	}
	name, list, blob, err := nixl.UnpackMetadata(v.peer.metadata)
	if err != nil {
		t.Fatal(err)
	}
	list[0].Len *= 1 << 10
	liar, err := v.agent.Load(nixl.PackMetadata(name, list, blob))
	if err != nil {
		t.Fatal(err)
	}
	beyond := nixl.Piece{Remote: list[0].Len - 4096, Len: 4096}
	if _, err := read(withDeadline(t), liar, v.memory, beyond); !errors.Is(err, nixl.ErrPeer) {
		t.Errorf("a read of what a peer only says it has = %v, want %v", err, nixl.ErrPeer)
	}
	v.meet(t, 4)
}

// TestMemoryThatIsGone: the peer has taken its memory back, which its metadata does not say.
func TestMemoryThatIsGone(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			v := newVictim(t, transport.tls)
			v.peer.ask(t, "unmap", "unmapped")
			moved, err := v.untilFault(t)
			t.Logf("outcome: %v", err)
			v.remote.Fail(os.ErrClosed)
			if moved != nil {
				closes(t, "settled", moved.Settled())
			}
			v.meet(t, 5)
		})
	}
}

// TestMemoryExhausted: what cannot be had or registered is refused, and the agent goes on.
func TestMemoryExhausted(t *testing.T) {
	v := newVictim(t, "")
	if _, err := nixl.NewMapping("huge", 1<<60); err == nil {
		t.Error("a mapping of 2^60 bytes = nil")
	}
	if m, err := v.agent.RegisterDevice(1<<47, 1<<40, 99); err == nil {
		t.Logf("the library takes memory of a GPU that is not there; closing: %v", m.Close())
	} else if !errors.Is(err, nixl.ErrRegister) {
		t.Errorf("RegisterDevice = %v, want %v", err, nixl.ErrRegister)
	}
	v.readAll(t, 1)
}

// TestUnreadableHome: the library needs $HOME to be readable or absent, and does not say so. It looks once in a process.
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
