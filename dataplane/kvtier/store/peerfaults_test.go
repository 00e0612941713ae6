package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/nixl"
	"github.com/warmpath/warmpath/nixl/nixltest"
)

// reaches runs a test over TCP and, where this machine has the library, over NIXL.
func reaches(t *testing.T, f func(t *testing.T, library string)) {
	t.Helper()
	t.Run("tcp", func(t *testing.T) { f(t, "") })
	t.Run("nixl", func(t *testing.T) {
		library := nixltest.Library(t)
		t.Setenv("UCX_NET_DEVICES", "lo")
		f(t, library)
	})
}

func realFabric(t *testing.T, library string) nixl.Fabric {
	t.Helper()
	if library == "" {
		return nil
	}
	lib, err := nixl.Open(library)
	require.NoError(t, err)
	return lib
}

// farNode is a store in a process of its own, and a store of this process that has it as its
// peer.
type farNode struct {
	*soakProcess
	here *Store
	on   *engine // stores there
	in   *engine // reads here
}

func newFarNode(t *testing.T, library string, env ...string) *farNode {
	t.Helper()
	site := &soakSite{t: t}
	n := &soakNode{Name: "far", Socket: filepath.Join(t.TempDir(), "s"), Listen: natstest.Address(t), HTTP: natstest.Address(t), Bytes: minBytes, Library: library}
	f := &farNode{soakProcess: site.add("far", soakNodeEnv, n, n, env...)}
	f.here = serve(t, Config{Node: "here", Fabric: realFabric(t, library), AskTimeout: time.Second, pullTimeout: time.Second})
	f.here.SetPeers([]Peer{{"far", n.Listen}})
	f.in = dialTier(t, f.here, "m")
	f.meet(library != "" && len(env) == 0)
	return f
}

// meet waits until the other process is there, and connects an engine to it.
func (f *farNode) meet(byNIXL bool) {
	t := f.site.t
	t.Helper()
	client := &http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	eventually(t, "the peer is there", func() bool {
		s, ok := f.look(client)
		return ok && s.NIXL == byNIXL && f.here.Stats().Peers == 1 && (!byNIXL || f.here.Stats().NIXL)
	})
	f.on = dialTier(t, &Store{cfg: Config{Socket: f.node.Socket}}, "m")
}

// halt stops the other process with all of its threads, which takes the kernel a moment.
func (f *farNode) halt() {
	t := f.site.t
	t.Helper()
	_ = f.cmd.Process.Signal(syscall.SIGSTOP)
	eventually(t, "all threads are stopped", func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", f.cmd.Process.Pid))
		for _, file := range threads {
			text, err := os.ReadFile(file)
			if err != nil || !bytes.Contains(text, []byte(") T ")) {
				return false
			}
		}
		return len(threads) > 0
	})
}

// moves stores a prompt at the other process and reads it here.
func (f *farNode) moves(prompt uint32, n int) {
	t := f.site.t
	t.Helper()
	hashes := f.on.store(prompt, n)
	within(t, 4*patience, fmt.Sprintf("%d pages of prompt %d come", n, prompt), func() bool { // a question and a pull have 1 s, and a busy machine may need more
		return f.in.exists(hashes, patience) == n && f.in.check(prompt, hashes, patience) == n
	})
}

// byNIXL returns the bytes read by NIXL.
func (f *farNode) byNIXL() uint64 { return f.here.Agents()["kv-tier-reads"].BytesRead }

// TestPeerIsKilled: another process takes the place of a killed peer, with other pages in the
// same memory.
func TestPeerIsKilled(t *testing.T) {
	reaches(t, func(t *testing.T, library string) {
		t.Helper()
		f := newFarNode(t, library)
		f.moves(1, 64)
		if by := f.byNIXL(); (by > 0) != (library != "") {
			t.Errorf("%d bytes came over NIXL", by)
		}
		for life := range uint32(2) {
			lost := f.on.store(100+life, 16)
			f.end(syscall.SIGKILL)
			if n := f.in.exists(lost, patience); n != 0 {
				t.Errorf("after the peer's death %d of its pages are expected", n)
			}
			f.in.store(200+life, 16)
			f.in.reads("stored here after the peer's death", 16, 200+life, chain(200+life, 16), 0)
			require.NoError(t, f.start())
			f.meet(library != "")
			f.moves(10+life, 64)
		}
	})
}

// TestPeerIsStopped: a question to a stopped peer ends with its timeout, promised pages do not
// come, and after it goes on all is as before.
func TestPeerIsStopped(t *testing.T) {
	reaches(t, func(t *testing.T, library string) {
		t.Helper()
		f := newFarNode(t, library)
		f.moves(1, 64)
		promised, asked := f.on.store(2, 16), f.on.store(3, 16)
		ns := f.here.pages.current("m")
		peer := f.here.peers.connected()[0]
		f.halt()
		if n := f.here.peers.pull(peer, ns, promised, nil, false); n != 16 {
			t.Fatalf("%d of 16 pages are announced", n)
		}
		f.in.reads("of a process that is stopped", 0, 2, promised, 50*time.Millisecond)
		f.in.finds("of a process that is stopped", 0, asked, patience)
		f.in.store(4, 16)
		f.in.reads("stored here while the peer is stopped", 16, 4, chain(4, 16), 0)
		eventually(t, "the pull is given up", func() bool { return f.here.Stats().PullFailures > 0 && f.here.Stats().Peers == 0 })
		_ = f.cmd.Process.Signal(syscall.SIGCONT)
		eventually(t, "the peer is back, and nothing is in quarantine", func() bool { return f.here.Stats().Peers == 1 && f.here.Stats().Quarantined == 0 })
		f.moves(2, 16)
		f.moves(5, 64)
	})
}

// TestUnreadableHome: the library refuses to make an agent, and pages come by TCP.
func TestUnreadableHome(t *testing.T) {
	library := nixltest.Library(t)
	t.Setenv("UCX_NET_DEVICES", "lo")
	loop := filepath.Join(t.TempDir(), "loop")
	require.NoError(t, os.Symlink(loop, loop))
	f := newFarNode(t, library, "HOME="+loop)
	f.moves(1, 64)
	if by := f.byNIXL(); by != 0 {
		t.Errorf("%d bytes came over NIXL from a process that has none", by)
	}
	f.end(0)
	if said := f.stderr.String(); !strings.Contains(said, "$HOME cannot be read") || !strings.Contains(said, "by TCP") {
		t.Errorf("the process does not say why it has no NIXL: %s", said)
	}
}

// liar is a peer that speaks the protocol, claims all pages, and gives false facts of its memory.
type liar struct {
	welcome welcome
	offset  uint64 // of each page, as it answers to pin
	mu      sync.Mutex
	asked   map[uint8]int // by op; guarded by mu
}

func (l *liar) count(op uint8) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked[op]
}

// serve answers on a listener until the test ends.
func (l *liar) serve(t *testing.T) (endpoint string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	all.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer context.AfterFunc(ctx, func() { c.Close() })()
				defer c.Close()
				n := &peerSession{conn: c}
				for l.answer(n) == nil {
				}
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		stop()
		all.Wait()
	})
	return listener.Addr().String()
}

func (l *liar) answer(n *peerSession) error {
	h, err := readFrame(n.conn, &n.body, time.Time{}, false)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.asked[h.op]++
	l.mu.Unlock()
	switch h.op {
	case opPeerHello:
		return n.send(h, l.welcome.encode())
	case opUnpin:
		return nil
	case opCleared:
		return n.send(h, nil)
	}
	r, err := parsePageRequest(n.body)
	if err != nil {
		return err
	}
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(r.hashes)))
	switch h.op {
	case opPin:
		for range r.hashes {
			out = binary.LittleEndian.AppendUint64(out, l.offset)
		}
	case opFetch:
		for range r.hashes {
			out = append(out, 1)
		}
		for i := range r.hashes {
			out = append(out, pageBytes(1<<32+uint64(i))...)
		}
	case opHas:
	default:
		return io.EOF
	}
	return n.send(h, out)
}

// TestGarbageMetadata: false metadata of a peer is ignored, and its pages come by TCP.
func TestGarbageMetadata(t *testing.T) {
	for name, garbage := range map[string][]byte{"noise": []byte("garbage"), "long": make([]byte, 100_000)} {
		t.Run(name, func(t *testing.T) {
			var log logged
			here := serve(t, Config{Node: "here", Fabric: nixltest.NewLoopback(), Log: log.log()})
			eventually(t, "NIXL", func() bool { return here.Stats().NIXL })
			l := &liar{asked: map[uint8]int{}, welcome: welcome{instance: 1, locality: here.nixl.own.locality, memory: 1, metadata: garbage}}
			here.SetPeers([]Peer{{"liar", l.serve(t)}})
			eventually(t, "the peer", func() bool { return here.Stats().Peers == 1 })
			in := dialTier(t, here, "m")
			hashes := chain(1, 8)
			in.finds("from the peer", 8, hashes, patience)
			in.reads("from the peer", 8, 1, hashes, patience)
			if l.count(opFetch) != 1 || l.count(opPin) != 0 || log.count("cannot use NIXL to a peer") != 1 {
				t.Errorf("%d fetches, %d pins: %s", l.count(opFetch), l.count(opPin), log.text.String())
			}
		})
	}
}

// TestOutOfRange: a peer names offsets outside of its memory, or a memory that it lacks. Nothing
// is read.
func TestOutOfRange(t *testing.T) {
	f := nixltest.NewLoopback()
	agent, err := nixl.NewAgent(f, nixl.Config{Name: "liar"})
	require.NoError(t, err)
	defer agent.Close()
	mapping, err := nixl.NewMapping("liar", 1<<20)
	require.NoError(t, err)
	defer mapping.Close()
	memory, err := agent.Register(mapping)
	require.NoError(t, err)
	metadata, err := agent.Metadata()
	require.NoError(t, err)
	here := serve(t, Config{Node: "here", Fabric: f})
	eventually(t, "NIXL", func() bool { return here.Stats().NIXL })
	good := welcome{instance: 1, locality: here.nixl.own.locality, memory: memory.ID(), metadata: metadata}
	other := good
	other.instance, other.memory = 2, 77
	liars := []*liar{
		{welcome: good, offset: 1 << 20}, {welcome: good, offset: 1<<20 - 1}, {welcome: good, offset: 1 << 63}, {welcome: good, offset: absent - 1}, {welcome: other},
	}
	in := dialTier(t, here, "m")
	for i, l := range liars {
		l.asked = map[uint8]int{}
		here.SetPeers([]Peer{{"liar", l.serve(t)}})
		eventually(t, "the peer", func() bool { return here.Stats().Peers == 1 && here.peers.connected()[0].Endpoint != "" })
		prompt := uint32(10 + i)
		hashes := chain(prompt, 8)
		in.exists(hashes, patience)
		eventually(t, "the pull has failed", func() bool { return here.Stats().PullFailures > int64(i) })
		if n := in.check(prompt, hashes, 0); n != 0 {
			t.Errorf("%d pages that lie at %d of 1 MiB are read", n, l.offset)
		}
		in.store(prompt, 8)
		in.reads("stored after that", 8, prompt, hashes, 0)
		here.SetPeers(nil)
		eventually(t, "the peer is gone", func() bool { return here.Stats().Peers == 0 })
	}
	if s := here.Agents()["kv-tier-reads"]; s.Posted != 0 {
		t.Errorf("%d transfers were begun", s.Posted)
	}
}

// TestMemoryIsExhausted: a store whose slots are all being written pulls nothing, and pulls again
// when there is room. Memory that cannot be made is an error.
func TestMemoryIsExhausted(t *testing.T) {
	a, b := pair(t, nil)
	on, here, greedy := dialTier(t, a, "m"), dialTier(t, b, "m"), dialTier(t, b, "m")
	hashes := on.store(1, 64)
	all := int(b.Stats().Bytes/testBytes) + 100
	results := greedy.set(chain(9, all), make([]uint64, all), nil, false) // room that it does not confirm
	if results[all-1] != setFull {
		t.Fatalf("the last page of %d finds room: %d", all, results[all-1])
	}
	here.exists(hashes, patience)
	here.reads("into memory that is full", 0, 1, hashes, patience)
	if s := b.Stats(); s.Pages != 0 || s.Full == 0 {
		t.Errorf("%d pages are here, %d found no room", s.Pages, s.Full)
	}
	greedy.conn.Close()
	eventually(t, "the room is free", func() bool { return b.Stats().Abandoned == 1 })
	here.finds("when there is room again", 64, hashes, patience)
	here.reads("when there is room again", 64, 1, hashes, patience)
	tier, err := New(Config{Bytes: 1 << 60, Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		tier.Close()
		t.Error("a tier of 2^60 bytes is made")
	}
	if errors.Is(err, ErrConfig) {
		t.Errorf("New = %v, want the system's words", err)
	}
}
