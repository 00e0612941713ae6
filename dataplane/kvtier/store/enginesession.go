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
	// frameTimeout bounds the rest of a message that has begun, and the write of an answer: an
	// engine that stops in the middle keeps its pins for no longer.
	frameTimeout = 10 * time.Second
	// maxReads bounds the leases of a connection. SGLang reads one batch at a time.
	maxReads = 64
	// maxSet bounds the slots that an engine can reserve without a copy; SGLang stores 128 pages
	// at most.
	maxSet = 4096
	// maxClearWait bounds an engine's wait for clears at peers.
	maxClearWait = 10 * time.Second
)

// engineSession is one connection of an engine. It belongs to the goroutine of the connection.
type engineSession struct {
	server  *engineServer
	conn    *net.UnixConn
	name    string // of the namespace
	ns      uint32 // with that name; a clear replaces it
	layout  layout
	greeted bool
	retired bool // the engine has loaded other weights

	req     request
	body    []byte
	out     []byte
	offsets []uint64
	reads   map[uint64]read // by sequence number of the get
	set     *batch          // copied, and not committed
	setSeq  uint64
}

// read is a get without its release.
type read struct {
	lease *lease
	bytes int       // that the engine copies
	at    time.Time // of the answer
}

// run answers until the connection ends, and gives back all that the engine held.
func (n *engineSession) run() {
	s := n.server
	if s.pages.enter() != nil {
		n.conn.Close()
		return
	}
	defer s.pages.leave()
	s.counts.add(func(c *Stats) { c.Clients++ })
	defer s.counts.add(func(c *Stats) { c.Clients-- })
	err := n.serve()
	n.conn.Close()
	if n.greeted {
		s.pages.closeConnection(n.name, n.retired)
	}
	for _, r := range n.reads {
		s.leases.release(r.lease)
	}
	n.abandon()
	for _, r := range n.layout.regions {
		r.close()
	}
	if err != nil {
		s.cfg.Log.Warn("an engine's connection to the KV tier failed", "error", err)
	}
}

// serve reads and answers messages. It returns nil after the engine has left.
func (n *engineSession) serve() error {
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
			n.server.counts.add(func(c *Stats) {
				if errors.Is(err, ErrRegion) {
					c.Faults++
				} else {
					c.Refused++
				}
			})
			// The engine may have left.
			_ = writeFrame(n.conn, time.Now().Add(frameTimeout), header{op: h.op, status: statusFailed, seq: h.seq}, []byte(err.Error()))
			return err
		}
	}
}

// read reads the next message into n.body, and the descriptors beside it.
func (n *engineSession) read() (header, []*os.File, error) {
	var raw [headerBytes]byte
	oob := make([]byte, unix.CmsgSpace(4*maxRegions))
	var idle time.Time // none: an engine may be idle for hours,
	if n.set != nil || !n.greeted {
		idle = time.Now().Add(frameTimeout) // but not with reserved slots
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
	if err := n.conn.SetReadDeadline(time.Now().Add(frameTimeout)); err != nil {
		return header{}, files, err
	}
	if _, err := io.ReadFull(n.conn, raw[got:]); err != nil {
		return header{}, files, err
	}
	h, err := parseHeader(raw[:])
	if err != nil {
		return h, files, err
	}
	n.body = slices.Grow(n.body[:0], int(h.length))[:h.length]
	_, err = io.ReadFull(n.conn, n.body)
	return h, files, err
}

// descriptors takes the descriptors of SCM_RIGHTS. Bad control messages have none.
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

// send writes an answer.
func (n *engineSession) send(h header, body []byte) error {
	return writeFrame(n.conn, time.Now().Add(frameTimeout), header{op: h.op, seq: h.seq}, body)
}

// answer does the work of one message.
func (n *engineSession) answer(h header, files []*os.File) error {
	if !n.greeted && h.op != opHello {
		return fmt.Errorf("%w: op %d before hello", ErrWire, h.op)
	}
	switch h.op {
	case opHello:
		return n.hello(h, files)
	case opExists, opGet, opSet:
		if err := n.req.parse(h.op, h.flags, n.body); err != nil {
			return err
		}
		n.ns = n.server.pages.current(n.name)
		return map[uint8]func(header) error{opExists: n.exists, opGet: n.get, opSet: n.store}[h.op](h)
	case opRelease, opCommit:
		if len(n.body) != 8 {
			return fmt.Errorf("%w: op %d with %d bytes", ErrWire, h.op, len(n.body))
		}
		return n.finish(h.op, binary.LittleEndian.Uint64(n.body))
	case opClear:
		return n.clear(h)
	case opRetire:
		n.retired = true
		return nil
	case opStats:
		text, err := json.Marshal(n.server.stats())
		if err != nil {
			return err
		}
		return n.send(h, text)
	}
	return fmt.Errorf("%w: unknown op %d", ErrWire, h.op)
}

// hello maps the engine's memory and opens its namespace.
func (n *engineSession) hello(h header, files []*os.File) error {
	if n.greeted {
		return fmt.Errorf("%w: a second hello", ErrWire)
	}
	m, err := parseHello(n.body)
	if err != nil {
		return err
	}
	if len(files) != m.regions {
		return fmt.Errorf("%w: %d regions and %d descriptors", ErrWire, m.regions, len(files))
	}
	n.layout = layout{pieces: m.pieces, bytes: m.pageBytes()}
	for _, f := range files {
		r, err := mapRegion(f)
		if err != nil {
			return err
		}
		n.layout.regions = append(n.layout.regions, r)
	}
	pages := n.server.pages
	if n.ns, err = pages.open(m.name, n.layout.bytes); err != nil {
		return err
	}
	n.greeted, n.name = true, m.name
	body := binary.LittleEndian.AppendUint32(nil, wireVersion)
	body = binary.LittleEndian.AppendUint32(body, uint32(n.layout.bytes))
	body = binary.LittleEndian.AppendUint64(body, n.server.instance)
	body = binary.LittleEndian.AppendUint64(body, uint64(len(pages.arena.data)))
	if err := n.conn.SetWriteDeadline(time.Now().Add(frameTimeout)); err != nil {
		return err
	}
	_, _, err = n.conn.WriteMsgUnix(header{op: h.op, seq: h.seq}.frame(body), unix.UnixRights(int(pages.arena.ro.Fd())), nil)
	return err
}

func (n *engineSession) exists(h header) error {
	count := n.server.find(n.ns, n.req.hashes, time.Duration(n.req.wait)*time.Millisecond)
	n.out = binary.LittleEndian.AppendUint32(n.out[:0], uint32(count))
	return n.send(h, n.out)
}

func (n *engineSession) get(h header) error {
	if len(n.reads) >= maxReads {
		return fmt.Errorf("%w: %d reads without release", ErrWire, len(n.reads))
	}
	if _, ok := n.reads[h.seq]; ok {
		return fmt.Errorf("%w: sequence %d twice", ErrWire, h.seq)
	}
	s := n.server
	s.peers.incoming.await(n.ns, n.req.hashes, time.Duration(n.req.wait)*time.Millisecond)
	offsets, l := s.leases.get(n.offsets[:0], n.ns, n.req.hashes, time.Duration(n.req.lease)*time.Millisecond)
	n.offsets = offsets
	got := 0
	if l != nil {
		// Engines copy the pages before the first absent one.
		leading := slices.Index(offsets, absent)
		if leading < 0 {
			leading = len(offsets)
		}
		n.reads[h.seq] = read{lease: l, bytes: leading * n.layout.bytes, at: time.Now()}
		got = len(l.entries)
	}
	s.counts.add(func(c *Stats) {
		c.Read += int64(got)
		c.ReadBytes += int64(got * n.layout.bytes)
		c.Missed += int64(len(offsets) - got)
	})
	n.out = binary.LittleEndian.AppendUint32(n.out[:0], uint32(len(offsets)))
	for _, o := range offsets {
		n.out = binary.LittleEndian.AppendUint64(n.out, o)
	}
	return n.send(h, n.out)
}

// store copies pages. They become readable when the engine commits, and thereby confirms that it
// did not touch them meanwhile: an engine that gave up may have reused them, and never commits.
func (n *engineSession) store(h header) error {
	n.abandon()
	if len(n.req.hashes) > maxSet {
		return fmt.Errorf("%w: a set of %d pages, and the most are %d", ErrWire, len(n.req.hashes), maxSet)
	}
	var parent *proto.Hash
	if n.req.hasParent {
		parent = &n.req.parent
	}
	n.out = binary.LittleEndian.AppendUint32(n.out[:0], uint32(len(n.req.hashes)))
	n.set, n.out = n.server.pages.reserve(n.ns, n.req.hashes, parent, n.out, false)
	n.setSeq = h.seq
	for i, token := range n.req.tokens {
		dst := n.set.memory(i)
		if dst == nil {
			continue
		}
		if err := n.layout.gather(dst, token); err != nil {
			return err
		}
	}
	return n.send(h, n.out)
}

// finish ends a read or a write. The lease of a read may have expired.
func (n *engineSession) finish(op uint8, seq uint64) error {
	if op == opRelease {
		if r, ok := n.reads[seq]; ok {
			n.server.reads.add(r.bytes, time.Since(r.at))
			n.server.leases.release(r.lease)
			delete(n.reads, seq)
		}
		return nil
	}
	if n.set == nil || n.setSeq != seq {
		return fmt.Errorf("%w: commit of %d, which is not the last set", ErrWire, seq)
	}
	n.set.commit()
	n.set = nil
	return nil
}

// clear drops the pages of the engine's model, here and at peers.
func (n *engineSession) clear(h header) error {
	if len(n.body) != 4 {
		return fmt.Errorf("%w: clear of %d bytes", ErrWire, len(n.body))
	}
	wait := time.Duration(binary.LittleEndian.Uint32(n.body)) * time.Millisecond
	pages, told, missing := n.server.clear(n.name, min(wait, maxClearWait))
	n.out = binary.LittleEndian.AppendUint64(n.out[:0], uint64(pages))
	n.out = binary.LittleEndian.AppendUint32(n.out, uint32(told))
	n.out = binary.LittleEndian.AppendUint32(n.out, uint32(missing))
	return n.send(h, n.out)
}

func (n *engineSession) abandon() {
	if n.set != nil {
		n.set.abandon()
		n.set = nil
		n.server.counts.add(func(c *Stats) { c.Abandoned++ })
	}
}
