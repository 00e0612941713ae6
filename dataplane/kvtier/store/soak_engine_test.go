package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// soakEngine configures an engine's process. Engines of one form share their pages, over all
// nodes.
type soakEngine struct {
	Socket string
	Form   int // 0 or 1: pages of two models differ in their size
}

// The pages of TestSoak: more prompts than fit, some of them asked for often.
const (
	soakPrompts     = 300
	soakLongest     = 160 // pages of a prompt
	soakPoolPages   = 96
	soakPieces      = 8
	soakLease       = 1500 * time.Millisecond // an engine that is stopped for longer must not believe what it copied
	soakAnswerLimit = 4 * time.Second
)

// soakTokens are those of a page of each form, and soakPieceBytes of a piece: pages of 4 and 20
// KiB.
var soakTokens, soakPieceBytes = [2]int{4, 8}, [2]int{512, 2560}

// soakCounts are the counts of an engine, which writes them as lines of JSON.
type soakCounts struct {
	Stored, Checked, Missing, Late, Unconfirmed, Lost, Silent int64  // pages, but for the last two: connections, answers
	Wrong                                                     string // the first wrong byte; the engine ends with it
}

func (c *soakCounts) add(o soakCounts) {
	c.Stored += o.Stored
	c.Checked += o.Checked
	c.Missing += o.Missing
	c.Late += o.Late
	c.Unconfirmed += o.Unconfirmed
	c.Lost += o.Lost
	c.Silent += o.Silent
}

// soakClient is an engine of the soak: its pool, its connection and its counts.
type soakClient struct {
	soakEngine
	*engine
	file   *os.File
	pool   []byte
	page   []byte // a copy of the one that is checked
	want   []byte
	counts soakCounts
	told   time.Time
}

var errSoakWrong, errSoakGaveUp = errors.New("a wrong byte"), errors.New("does not wait")

func soakEngineMain(ctx context.Context, spec []byte) error {
	c := &soakClient{}
	if err := json.Unmarshal(spec, &c.soakEngine); err != nil {
		return err
	}
	bytes := soakPieces * soakPieceBytes[c.Form]
	c.page, c.want = make([]byte, bytes), make([]byte, bytes)
	fd, err := unix.MemfdCreate("soak-pool", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	c.file = os.NewFile(uintptr(fd), "soak-pool")
	if err := c.file.Truncate(int64(soakPoolPages * bytes)); err != nil {
		return err
	}
	if c.pool, err = unix.Mmap(fd, 0, soakPoolPages*bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return err
	}
	for ctx.Err() == nil {
		err := c.dial()
		for err == nil && ctx.Err() == nil {
			err = c.turn()
			c.tell()
		}
		c.hangUp()
		switch {
		case errors.Is(err, errSoakWrong):
			c.counts.Wrong = err.Error()
			c.told = time.Time{}
			c.tell()
			return err
		case errors.Is(err, errSoakGaveUp):
		case errors.Is(err, os.ErrDeadlineExceeded):
			c.counts.Silent++
		case err != nil:
			c.counts.Lost++
		}
		c.tell()
		c.scribble() // whatever was asked of the tier, the pool is the engine's own
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

// tell writes the counts from time to time.
func (c *soakClient) tell() {
	if time.Since(c.told) < 50*time.Millisecond {
		return
	}
	c.told = time.Now()
	line, err := json.Marshal(c.counts)
	if err == nil {
		_, _ = os.Stdout.Write(append(line, '\n')) // who reads it may be gone
	}
}

// dial connects to the sidecar and maps its memory.
func (c *soakClient) dial() error {
	conn, err := net.Dial("unix", c.Socket)
	if err != nil {
		return err
	}
	c.engine = &engine{conn: conn.(*net.UnixConn)}
	m := hello{version: wireVersion, pageTokens: uint32(soakTokens[c.Form]), regions: 1, name: fmt.Sprintf(`{"model":"soak","form":%d,"tokens":%d}`, c.Form, soakTokens[c.Form])}
	for i := range soakPieces { // each piece of all pages together, as a layer is
		m.pieces = append(m.pieces, piece{bytes: soakPieceBytes[c.Form], base: uint64(i * soakPoolPages * soakPieceBytes[c.Form]), stride: uint64(soakPieceBytes[c.Form])})
	}
	body, fds, err := c.greet(m, c.file)
	if err != nil {
		return err
	}
	if len(fds) != 1 || len(body) != 24 {
		return fmt.Errorf("%w: %d descriptors, %d bytes", ErrWire, len(fds), len(body))
	}
	defer unix.Close(fds[0])
	c.arena, err = unix.Mmap(fds[0], 0, int(binary.LittleEndian.Uint64(body[16:])), unix.PROT_READ, unix.MAP_SHARED)
	return err
}

func (c *soakClient) hangUp() {
	if c.engine == nil {
		return
	}
	c.conn.Close()
	if c.arena != nil {
		_ = unix.Munmap(c.arena)
	}
	c.engine = nil
}

// turn is one prompt: pages of the store are checked, and the others stored.
func (c *soakClient) turn() error {
	prompt := uint32(rand.ExpFloat64() * soakPrompts / 5)
	hashes := soakChain(c.Form, prompt, 1+rand.IntN(soakLongest))
	body, err := c.limited(opExists, 0, (&request{hashes: hashes, wait: 500}).encode(opExists))
	if err != nil {
		return err
	}
	have, err := parseCount(body, len(hashes))
	if err != nil {
		return err
	}
	if have > 0 {
		if have, err = c.check(hashes[:have]); err != nil {
			return err
		}
	}
	for have < len(hashes) {
		n := min(soakPoolPages, len(hashes)-have)
		var parent *proto.Hash
		if have > 0 {
			parent = &hashes[have-1]
		}
		if err := c.storeSome(hashes[have:have+n], parent); err != nil {
			return err
		}
		have += n
	}
	return nil
}

// limited asks with a timeout, as engines do.
func (c *soakClient) limited(op, flags uint8, body []byte) ([]byte, error) {
	if err := c.engine.tell(op, flags, body); err != nil {
		return nil, err
	}
	if err := c.conn.SetReadDeadline(time.Now().Add(soakAnswerLimit)); err != nil {
		return nil, err
	}
	head := make([]byte, headerBytes)
	if _, err := io.ReadFull(c.conn, head); err != nil {
		return nil, err
	}
	return c.rest(head)
}

// check reads pages and compares each byte. It ignores copies that outlast the lease by the
// engine's own clock. It returns the number of leading pages.
func (c *soakClient) check(hashes []proto.Hash) (have int, err error) {
	began := time.Now()
	r := request{hashes: hashes, lease: uint32(soakLease.Milliseconds()), wait: 2000}
	body, err := c.limited(opGet, 0, r.encode(opGet))
	if err != nil {
		return 0, err
	}
	offsets, err := parseOffsets(body, len(hashes))
	if err != nil {
		return 0, err
	}
	get := c.seq
	all := true
	for i, o := range offsets {
		if o == absent {
			c.counts.Missing++
			all = false
			continue
		}
		copy(c.page, c.arena[o:])
		if time.Since(began) > soakLease {
			c.counts.Late += int64(len(offsets) - i)
			break
		}
		soakBytes(c.want, c.Form, hashes[i])
		if at := differ(c.page, c.want); at >= 0 {
			return 0, fmt.Errorf("%w: at %d of page %x of form %d: %x, want %x", errSoakWrong, at, hashes[i], c.Form, c.page[at], c.want[at])
		}
		c.counts.Checked++
		if all {
			have++
		}
	}
	if rand.IntN(20) == 0 { // a lease that nobody gives back
		return have, nil
	}
	return have, c.engine.tell(opRelease, 0, sequence(get))
}

// storeSome fills the pool with pages and has the store copy them. One in 30 times it gives up,
// before or after the copy, and reuses the pool.
func (c *soakClient) storeSome(hashes []proto.Hash, parent *proto.Hash) error {
	r := request{hashes: hashes}
	slots := rand.Perm(soakPoolPages)
	for i, h := range hashes {
		soakBytes(c.want, c.Form, h)
		size := soakPieceBytes[c.Form]
		for p := range soakPieces {
			copy(c.pool[(p*soakPoolPages+slots[i])*size:], c.want[p*size:][:size])
		}
		r.tokens = append(r.tokens, uint64(slots[i])) // stride is a page's piece here
	}
	flags := uint8(0)
	if parent != nil {
		flags, r.hasParent, r.parent = flagParent, true, *parent
	}
	if rand.IntN(60) == 0 {
		c.counts.Unconfirmed += int64(len(hashes))
		defer c.scribble() // while the tier copies
		return errors.Join(errSoakGaveUp, c.engine.tell(opSet, flags, r.encode(opSet)))
	}
	body, err := c.limited(opSet, flags, r.encode(opSet))
	if err != nil {
		return err
	}
	if rand.IntN(60) == 0 {
		c.scribble()
		c.counts.Unconfirmed += int64(len(hashes))
		return nil
	}
	for _, result := range body[4:] {
		if result == setCopied {
			c.counts.Stored++
		}
	}
	return c.engine.tell(opCommit, 0, sequence(c.seq))
}

// scribble fills the pool with bytes of no page.
func (c *soakClient) scribble() {
	for i := range c.pool {
		c.pool[i] = 0xee
	}
}

// soakChain returns the hashes of a prompt with equal tokens.
func soakChain(form int, prompt uint32, n int) []proto.Hash {
	tokens := make([]uint32, n*soakTokens[form])
	for i := range tokens {
		tokens[i] = prompt
	}
	var hashes []proto.Hash
	var buf []byte
	for ; len(tokens) > 0; tokens = tokens[soakTokens[form]:] {
		for _, id := range tokens[:soakTokens[form]] {
			buf = binary.LittleEndian.AppendUint32(buf, id)
		}
		hashes = append(hashes, sha256.Sum256(buf))
		buf = append(buf[:0], hashes[len(hashes)-1][:]...)
	}
	return hashes
}

// soakBytes writes the bytes of a page, which follow from its hash and their position.
func soakBytes(dst []byte, form int, h proto.Hash) {
	x := binary.LittleEndian.Uint64(h[:]) ^ uint64(form)<<63
	for i := 0; i < len(dst); i += 8 {
		x += 0x9e3779b97f4a7c15
		z := (x ^ x>>30) * 0xbf58476d1ce4e5b9
		binary.LittleEndian.PutUint64(dst[i:], z^z>>27)
	}
}

// differ returns the first difference of two pages, or -1.
func differ(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}
