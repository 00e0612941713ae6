package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
	"github.com/warmpath/warmpath/dataplane/leaktest"
)

func TestMain(m *testing.M) {
	if code, mine := soakMain(); mine {
		os.Exit(code)
	}
	leaktest.Main(m)
}

// patience bounds waits: generous, as these tests measure nothing.
const patience = 3 * time.Minute

// serve runs a store until the test ends.
func serve(t *testing.T, cfg Config) *Store {
	t.Helper()
	tier, stop := serveUntil(t, cfg)
	t.Cleanup(stop)
	return tier
}

// serveUntil runs a store until the returned call, which may be called twice.
func serveUntil(t *testing.T, cfg Config) (tier *Store, stop func()) {
	t.Helper()
	if cfg.Bytes == 0 {
		cfg.Bytes = minBytes
	}
	if cfg.Socket == "" {
		cfg.Socket = filepath.Join(t.TempDir(), "kv.sock")
	}
	if cfg.AskTimeout == 0 {
		cfg.AskTimeout = patience
	}
	if cfg.pullTimeout == 0 {
		cfg.pullTimeout = patience / 2
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	tier, err := New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- tier.Run(ctx) }()
	eventually(t, "the socket", func() bool {
		c, err := net.Dial("unix", cfg.Socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	stopped := false
	return tier, func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if err := tier.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	within(t, patience, what, ok)
}

// within waits for a condition, for a given time.
func within(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %v", what, limit)
		}
		time.Sleep(time.Millisecond)
	}
}

const (
	testTokens = 4
	testLayers = 3
	rowBytes   = 64 // of K or V, of a token and a layer
	testBytes  = 2 * testLayers * testTokens * rowBytes
	poolTokens = 256
)

// engine is the client side of the protocol, with a host pool in SGLang's layer_first layout.
type engine struct {
	t     *testing.T
	conn  *net.UnixConn
	file  *os.File
	pool  []byte
	arena []byte
	seq   uint64
}

// newPool makes shared memory of a pool's size.
func newPool(t *testing.T) (*os.File, []byte) {
	t.Helper()
	fd, err := unix.MemfdCreate("pool", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "pool")
	t.Cleanup(func() { f.Close() })
	size := 2 * testLayers * poolTokens * rowBytes
	require.NoError(t, f.Truncate(int64(size)))
	data, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Munmap(data) })
	return f, data
}

// layerFirst returns the pieces of a page in such a pool: K of all layers, then V.
func layerFirst() []piece {
	var pieces []piece
	for i := range 2 * testLayers {
		pieces = append(pieces, piece{bytes: testTokens * rowBytes, base: uint64(i * poolTokens * rowBytes), stride: rowBytes})
	}
	return pieces
}

// dialRaw connects without a greeting.
func dialRaw(t *testing.T, socket string) *engine {
	t.Helper()
	c, err := net.Dial("unix", socket)
	require.NoError(t, err)
	e := &engine{t: t, conn: c.(*net.UnixConn)}
	t.Cleanup(func() { c.Close() })
	return e
}

// dialTier connects an engine.
func dialTier(t *testing.T, tier *Store, name string) *engine {
	t.Helper()
	e := dialRaw(t, tier.cfg.Socket)
	e.file, e.pool = newPool(t)
	m := hello{version: wireVersion, pageTokens: testTokens, regions: 1, name: name, pieces: layerFirst()}
	body, fds, err := e.greet(m, e.file)
	require.NoError(t, err)
	if len(fds) != 1 || len(body) != 24 {
		t.Fatalf("hello brought %d descriptors and %d bytes, want 1 and 24", len(fds), len(body))
	}
	defer unix.Close(fds[0])
	e.arena, err = unix.Mmap(fds[0], 0, int(binary.LittleEndian.Uint64(body[16:])), unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Munmap(e.arena) })
	if _, err := unix.Mmap(fds[0], 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); !errors.Is(err, unix.EACCES) {
		t.Errorf("an engine maps the tier's memory for writing: %v", err)
	}
	return e
}

// greet says hello and returns the answer with its descriptors.
func (e *engine) greet(m hello, files ...*os.File) (body []byte, fds []int, err error) {
	raw := m.encode()
	frame := append(header{length: uint32(len(raw)), op: opHello}.append(nil), raw...)
	var rights []byte
	if len(files) > 0 {
		var numbers []int
		for _, f := range files {
			numbers = append(numbers, int(f.Fd()))
		}
		rights = unix.UnixRights(numbers...)
	}
	if _, _, err := e.conn.WriteMsgUnix(frame, rights, nil); err != nil {
		return nil, nil, err
	}
	head, oob := make([]byte, headerBytes), make([]byte, unix.CmsgSpace(4))
	_ = e.conn.SetReadDeadline(time.Now().Add(patience))
	n, nOOB, _, _, err := e.conn.ReadMsgUnix(head, oob)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range descriptors(oob[:nOOB]) {
		fd, err := unix.Dup(int(f.Fd()))
		f.Close()
		if err != nil {
			return nil, nil, err
		}
		fds = append(fds, fd)
	}
	if _, err := io.ReadFull(e.conn, head[n:]); err != nil {
		return nil, fds, err
	}
	body, err = e.rest(head)
	return body, fds, err
}

// rest reads the body of a header; a refusal is an error.
func (e *engine) rest(head []byte) ([]byte, error) {
	h, err := parseHeader(head)
	if err != nil {
		return nil, err
	}
	body := make([]byte, h.length)
	if _, err := io.ReadFull(e.conn, body); err != nil {
		return nil, err
	}
	if h.status != 0 {
		return nil, fmt.Errorf("refused: %s", body)
	}
	return body, nil
}

// tell sends a message.
func (e *engine) tell(op, flags uint8, body []byte) error {
	e.seq++
	_, err := e.conn.Write(append(header{uint32(len(body)), op, flags, 0, e.seq}.append(nil), body...))
	return err
}

// ask sends a message and reads the answer.
func (e *engine) ask(op, flags uint8, body []byte) ([]byte, error) {
	if err := e.tell(op, flags, body); err != nil {
		return nil, err
	}
	_ = e.conn.SetReadDeadline(time.Now().Add(patience))
	head := make([]byte, headerBytes)
	if _, err := io.ReadFull(e.conn, head); err != nil {
		return nil, err
	}
	return e.rest(head)
}

func (e *engine) must(op, flags uint8, body []byte) []byte {
	e.t.Helper()
	answer, err := e.ask(op, flags, body)
	require.NoError(e.t, err)
	return answer
}

// exists returns the number of leading pages that the store has; wait lets it ask its peers.
func (e *engine) exists(hashes []proto.Hash, wait time.Duration) int {
	e.t.Helper()
	r := request{hashes: hashes, wait: uint32(wait.Milliseconds())}
	return int(binary.LittleEndian.Uint32(e.must(opExists, 0, r.encode(opExists))))
}

// get reads pages and leaves them pinned; nil stands for an absent page.
func (e *engine) get(hashes []proto.Hash, wait time.Duration) [][]byte {
	e.t.Helper()
	r := request{hashes: hashes, lease: 30_000, wait: uint32(wait.Milliseconds())}
	offsets, err := parseOffsets(e.must(opGet, 0, r.encode(opGet)), len(hashes))
	require.NoError(e.t, err)
	pages := make([][]byte, len(hashes))
	for i, o := range offsets {
		if o != absent {
			pages[i] = e.arena[o : o+testBytes]
		}
	}
	return pages
}

// release releases the last get.
func (e *engine) release() {
	e.t.Helper()
	require.NoError(e.t, e.tell(opRelease, 0, sequence(e.seq)))
}

// set stores pages that begin at the given tokens, and commits where commit is set.
func (e *engine) set(hashes []proto.Hash, tokens []uint64, parent *proto.Hash, commit bool) []byte {
	e.t.Helper()
	r := request{hashes: hashes, tokens: tokens}
	flags := uint8(0)
	if parent != nil {
		flags, r.hasParent, r.parent = flagParent, true, *parent
	}
	results := e.must(opSet, flags, r.encode(opSet))[4:]
	if commit {
		require.NoError(e.t, e.tell(opCommit, 0, sequence(e.seq)))
		e.exists(nil, 0) // a commit has no answer; a question after it has
	}
	return results
}

// fill writes the bytes of a page into the pool, as they follow from a number, and returns them
// in canonical form.
func (e *engine) fill(token int, number uint64) []byte {
	canonical := pageBytes(number)
	at := canonical
	for i := range 2 * testLayers {
		copy(e.pool[(i*poolTokens+token)*rowBytes:], at[:testTokens*rowBytes])
		at = at[testTokens*rowBytes:]
	}
	return canonical
}

// pageBytes returns bytes that no other number has.
func pageBytes(number uint64) []byte {
	b := make([]byte, testBytes)
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], number*0x9e3779b97f4a7c15+uint64(i))
	}
	return b
}

// chain returns the hashes of n pages of a prompt.
func chain(prompt uint32, n int) []proto.Hash {
	tokens := make([]uint32, n*testTokens)
	for i := range tokens {
		tokens[i] = prompt
	}
	return proto.PageHashes(tokens, testTokens, "")
}

// store stores n pages of a prompt through an engine. Page i has the bytes of prompt<<32 + i.
func (e *engine) store(prompt uint32, n int) []proto.Hash {
	e.t.Helper()
	hashes := chain(prompt, n)
	for at := 0; at < n; at += poolTokens / testTokens {
		var tokens []uint64
		some := hashes[at:min(at+poolTokens/testTokens, n)]
		for i := range some {
			e.fill(i*testTokens, uint64(prompt)<<32+uint64(at+i))
			tokens = append(tokens, uint64(i*testTokens))
		}
		var parent *proto.Hash
		if at > 0 {
			parent = &hashes[at-1]
		}
		e.set(some, tokens, parent, true)
	}
	return hashes
}

// check reads pages of a prompt and compares them with the bytes of store. It returns the number
// of leading pages.
func (e *engine) check(prompt uint32, hashes []proto.Hash, wait time.Duration) int {
	e.t.Helper()
	pages := e.get(hashes, wait)
	defer e.release()
	for i, page := range pages {
		if page == nil {
			return i
		}
		if want := pageBytes(uint64(prompt)<<32 + uint64(i)); !bytes.Equal(page, want) {
			e.t.Errorf("page %d of prompt %d begins with %s, want %s", i, prompt, hex.EncodeToString(page[:16]), hex.EncodeToString(want[:16]))
		}
	}
	return len(pages)
}

// finds checks the result of exists.
func (e *engine) finds(what string, want int, hashes []proto.Hash, wait time.Duration) {
	e.t.Helper()
	if n := e.exists(hashes, wait); n != want {
		e.t.Errorf("%s: %d pages exist, want %d", what, n, want)
	}
}

// reads checks the result of check.
func (e *engine) reads(what string, want int, prompt uint32, hashes []proto.Hash, wait time.Duration) {
	e.t.Helper()
	if n := e.check(prompt, hashes, wait); n != want {
		e.t.Errorf("%s: %d pages are read, want %d", what, n, want)
	}
}
