package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

const (
	// frameLimit is how long the rest of a message that has begun may take, and an answer to be taken: a client that stops in
	// the middle keeps its pages for no longer.
	frameLimit = 10 * time.Second
	// maxGets bounds a connection's leases. SGLang reads one batch at a time.
	maxGets = 64
)

// session is one connection of an engine. All of it belongs to the connection's goroutine.
type session struct {
	tier  *Tier
	conn  *net.UnixConn
	name  string // of the pages
	ns    uint32 // that has the name; a clear gives it another
	form  form
	hello bool
	ended bool // the engine's weights are others now

	req     request
	body    []byte
	out     []byte
	offsets []uint64
	gets    map[uint64]*lease
	set     *pendingSet // copied, and not yet confirmed
	setSeq  uint64
}

// run answers until the connection ends, and then gives back all that the engine held.
func (n *session) run() {
	t := n.tier
	if t.enter() != nil {
		n.conn.Close()
		return
	}
	defer t.leave()
	t.counts.clients.Add(1)
	defer t.counts.clients.Add(-1)
	err := n.serve()
	n.conn.Close()
	if n.hello {
		t.left(n.name, n.ended)
	}
	for _, l := range n.gets {
		t.release(l)
	}
	n.abandon()
	for _, r := range n.form.regions {
		r.close()
	}
	if err != nil {
		t.log.Warn("an engine's connection to the KV tier failed", "error", err)
	}
}

// serve reads and answers messages. It returns nil when the client has left.
func (n *session) serve() error {
	for {
		h, files, err := n.read()
		if err == nil {
			err = n.answer(h, files)
		}
		for _, f := range files {
			f.Close()
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE), errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		default:
			if errors.Is(err, ErrRegion) {
				n.tier.counts.faults.Add(1)
			} else {
				n.tier.counts.refused.Add(1)
			}
			_ = n.send(header{op: h.op, status: statusFailed, seq: h.seq}, []byte(err.Error()), nil) // The client may be gone.
			return err
		}
	}
}

// read returns the next message, whose body is n.body, and the descriptors that came with it.
func (n *session) read() (header, []*os.File, error) {
	var raw [headerBytes]byte
	oob := make([]byte, unix.CmsgSpace(4*maxRegions))
	var idle time.Time // none: an engine may have nothing to do for hours,
	if n.set != nil || !n.hello {
		idle = time.Now().Add(frameLimit) // but not with room that is reserved for it
	}
	if err := n.conn.SetReadDeadline(idle); err != nil {
		return header{}, nil, err
	}
	got, nOOB, _, _, err := n.conn.ReadMsgUnix(raw[:], oob)
	files := descriptors(oob[:nOOB])
	if err == nil && got == 0 {
		err = io.EOF
	}
	if err != nil {
		return header{}, files, err
	}
	if err := n.conn.SetReadDeadline(time.Now().Add(frameLimit)); err != nil {
		return header{}, files, err
	}
	if _, err := io.ReadFull(n.conn, raw[got:]); err != nil {
		return header{}, files, err
	}
	h, err := parseHeader(raw[:])
	if err != nil {
		return h, files, err
	}
	if cap(n.body) < int(h.length) {
		n.body = make([]byte, h.length)
	}
	n.body = n.body[:h.length]
	_, err = io.ReadFull(n.conn, n.body)
	return h, files, err
}

// descriptors takes what SCM_RIGHTS brought. Bad control messages bring none.
func descriptors(oob []byte) []*os.File {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	var files []*os.File
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "engine"))
		}
	}
	return files
}

// send writes an answer, with a descriptor beside it where f is not nil.
func (n *session) send(h header, body []byte, f *os.File) error {
	h.length = uint32(len(body))
	var raw [headerBytes]byte
	head := h.append(raw[:0])
	if err := n.conn.SetWriteDeadline(time.Now().Add(frameLimit)); err != nil {
		return err
	}
	var oob []byte
	if f != nil {
		oob = unix.UnixRights(int(f.Fd()))
	}
	if oob != nil {
		if _, _, err := n.conn.WriteMsgUnix(head, oob, nil); err != nil {
			return err
		}
		_, err := n.conn.Write(body)
		return err
	}
	_, err := n.conn.Write(append(head, body...))
	return err
}

// answer does what a message asks for.
func (n *session) answer(h header, files []*os.File) error {
	if !n.hello && h.op != opHello {
		return fmt.Errorf("%w: op %d before hello", ErrWire, h.op)
	}
	switch h.op {
	case opHello:
		return n.greet(h, files)
	case opExists, opGet, opSet:
		if err := n.req.parse(h.op, h.flags, n.body); err != nil {
			return err
		}
		n.ns = n.tier.current(n.name)
		return map[uint8]func(header) error{opExists: n.exists, opGet: n.get, opSet: n.store}[h.op](h)
	case opRelease, opCommit:
		if len(n.body) != 8 {
			return fmt.Errorf("%w: op %d with %d bytes", ErrWire, h.op, len(n.body))
		}
		return n.finish(h.op, binary.LittleEndian.Uint64(n.body))
	case opClear:
		return n.clear(h)
	case opRetire:
		n.ended = true
		return nil
	case opStats:
		text, err := json.Marshal(n.tier.Stats())
		if err != nil {
			return err
		}
		return n.send(header{op: h.op, seq: h.seq}, text, nil)
	}
	return fmt.Errorf("%w: unknown op %d", ErrWire, h.op)
}

// greet takes the engine's memory and its form.
func (n *session) greet(h header, files []*os.File) error {
	if n.hello {
		return fmt.Errorf("%w: a second hello", ErrWire)
	}
	m, err := parseHello(n.body)
	if err != nil {
		return err
	}
	if len(files) != m.regions {
		return fmt.Errorf("%w: %d regions and %d descriptors", ErrWire, m.regions, len(files))
	}
	n.form = form{pieces: m.pieces, bytes: m.pageBytes()}
	for _, f := range files {
		r, err := mapRegion(f)
		if err != nil {
			return err
		}
		n.form.regions = append(n.form.regions, r)
	}
	if n.ns, err = n.tier.open(m.name, n.form.bytes); err != nil {
		return err
	}
	n.hello, n.name = true, m.name
	body := binary.LittleEndian.AppendUint32(nil, wireVersion)
	body = binary.LittleEndian.AppendUint32(body, uint32(n.form.bytes))
	body = binary.LittleEndian.AppendUint64(body, n.tier.instance)
	body = binary.LittleEndian.AppendUint64(body, uint64(len(n.tier.arena.data)))
	return n.send(header{op: h.op, seq: h.seq}, body, n.tier.arena.ro)
}

func (n *session) exists(h header) error {
	count := n.tier.find(n.ns, n.req.hashes, time.Duration(n.req.wait)*time.Millisecond)
	n.out = binary.LittleEndian.AppendUint32(n.out[:0], uint32(count))
	return n.send(header{op: h.op, seq: h.seq}, n.out, nil)
}

func (n *session) get(h header) error {
	if len(n.gets) >= maxGets {
		return fmt.Errorf("%w: %d reads that were not released", ErrWire, len(n.gets))
	}
	if _, ok := n.gets[h.seq]; ok {
		return fmt.Errorf("%w: sequence %d twice", ErrWire, h.seq)
	}
	n.tier.await(n.ns, n.req.hashes, time.Duration(n.req.wait)*time.Millisecond)
	offsets, l := n.tier.get(n.offsets[:0], n.ns, n.req.hashes, time.Duration(n.req.lease)*time.Millisecond)
	n.offsets = offsets
	n.tier.counts.getPages.Add(int64(len(offsets)))
	if l != nil {
		n.gets[h.seq] = l
		n.tier.counts.getHits.Add(int64(len(l.pages)))
		n.tier.counts.getBytes.Add(int64(len(l.pages) * n.form.bytes))
	}
	n.out = binary.LittleEndian.AppendUint32(n.out[:0], uint32(len(offsets)))
	for _, o := range offsets {
		n.out = binary.LittleEndian.AppendUint64(n.out, o)
	}
	if l != nil { // engines copy the pages before the first that is missing
		leading := slices.Index(offsets, absent)
		if leading < 0 {
			leading = len(offsets)
		}
		l.bytes, l.told = leading*n.form.bytes, time.Now()
	}
	return n.send(header{op: h.op, seq: h.seq}, n.out, nil)
}

// maxSet bounds the room that one engine can reserve without filling it; SGLang stores 128 pages at most.
const maxSet = 4096

// store copies pages. They become readable when the engine has confirmed that it did not touch them meanwhile: one that gave up
// waiting may have reused them, and never does.
func (n *session) store(h header) error {
	n.abandon()
	if len(n.req.hashes) > maxSet {
		return fmt.Errorf("%w: a set of %d pages, and %d are the most", ErrWire, len(n.req.hashes), maxSet)
	}
	var parent *proto.Hash
	if n.req.hasParent {
		parent = &n.req.parent
	}
	var results []byte
	n.out = binary.LittleEndian.AppendUint32(n.out[:0], uint32(len(n.req.hashes)))
	n.set, results = n.tier.reserve(n.ns, n.req.hashes, parent, n.out)
	n.setSeq, n.out = h.seq, results
	for i, token := range n.req.tokens {
		dst := n.set.memory(i)
		if dst == nil {
			continue
		}
		if err := n.form.gather(dst, token); err != nil {
			return err
		}
	}
	return n.send(header{op: h.op, seq: h.seq}, n.out, nil)
}

// finish ends a read or a write. One that is not known has expired or was abandoned.
func (n *session) finish(op uint8, seq uint64) error {
	if op == opRelease {
		if l := n.gets[seq]; l != nil {
			n.tier.reads.add(l.bytes, time.Since(l.told))
			n.tier.release(l)
		}
		delete(n.gets, seq)
		return nil
	}
	if n.set == nil || n.setSeq != seq {
		return fmt.Errorf("%w: commit of %d, which is not the last set", ErrWire, seq)
	}
	n.set.commit()
	n.set = nil
	return nil
}

func (n *session) abandon() {
	if n.set != nil {
		n.set.abandon()
		n.set = nil
		n.tier.counts.setGone.Add(1)
	}
}
