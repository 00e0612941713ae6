package zmq

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
)

// Bits of a frame's first byte (ZMTP 3.1, "framing"): the length that follows has one byte, or eight if it is long.
const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

const (
	// readSize is what one system call reads at most: some 50 events of 32 blocks.
	readSize = 64 << 10
	// maxCommand bounds a command: PING has 20 bytes, READY what the peer's application says of itself.
	maxCommand = 64 << 10
	// liveFrames is what a live message has: topic, sequence, payload.
	liveFrames = 3
	// answerFrames is what an answer of a replay has: an empty one before the same.
	answerFrames = 4
)

// buffers are lent to decoders while something waits in them, so that thousands of streams that are silent need none. Each pool has those of
// twice the size of the one before, from readSize on: the event of a prompt of 16,000 tokens has 85 KB.
var buffers [bufferSizes]sync.Pool

// bufferSizes bounds what is kept of a buffer that had to grow: 2 MiB, a message of 400,000 tokens.
const bufferSizes = 6

// buffer is what pools keep: a slice alone would be copied to the heap each time.
type buffer struct {
	bytes []byte
	size  int // Its pool, where there is one.
}

// borrow returns a buffer of a size.
func borrow(size int) *buffer {
	if size < bufferSizes {
		if b, ok := buffers[size].Get().(*buffer); ok {
			return b
		}
	}
	return &buffer{make([]byte, readSize<<size), size}
}

// item is what a decoder has found.
type item uint8

const (
	itemNone      item = iota // Nothing: more bytes are needed.
	itemFrame                 // A frame of a message that goes on; next does not return it.
	itemMessage               // decoder.msg
	itemMalformed             // A message of decoder.malformed frames, or whose sequence is not one.
	itemCommand               // decoder.command
)

// decoder cuts a connection's bytes into messages and commands. It holds what has come of a message until the rest has,
// in memory that grows with what came and not with what a peer announces.
type decoder struct {
	topic   []byte // Prefix of the topics wanted; publishers filter too.
	answers bool   // Messages are answers to a replay request.

	lent *buffer // nil while nothing waits.
	buf  []byte  // Its bytes.
	size int     // Of the buffer to begin with: what came last needed it.
	keep int     // buf[keep:r] is the message under way, and commands that stand in it.
	r, w int     // buf[r:w] is not looked at yet.

	// Of the message under way.
	frames int                  // How many began.
	part   [answerFrames][2]int // Begin and end of the first ones, from keep.
	wanted bool                 // The topic is.
	drop   bool                 // It is not wanted, or too long to have a meaning: nothing is kept of it.
	skip   int                  // Bytes still to come of a frame that is dropped.
	more   bool                 // Another frame follows.

	// What next returned; the slices alias buf until the next call of room or release.
	msg       Message
	command   []byte
	malformed int
}

// room returns where to put the bytes that come next, at least one.
func (d *decoder) room() []byte {
	switch {
	case d.buf == nil:
		d.lend(borrow(d.size))
	case d.keep > 0: // Once a message at most: what follows it is short then, or is long and stays at the front.
		copy(d.buf, d.buf[d.keep:d.w])
		d.r, d.w, d.keep = d.r-d.keep, d.w-d.keep, 0
	}
	if d.w == len(d.buf) {
		grown := borrow(d.lent.size + 1)
		copy(grown.bytes, d.buf)
		d.lend(grown)
	}
	return d.buf[d.w:]
}

// release gives the memory back where nothing waits in it.
func (d *decoder) release() {
	if d.buf != nil && d.keep == d.w {
		// A size less where half would have done, so that one long message is soon forgotten.
		if d.size = min(d.lent.size, bufferSizes-1); d.w <= len(d.buf)/2 {
			d.size = max(0, d.size-1)
		}
		d.lend(nil)
		d.keep, d.r, d.w = 0, 0, 0
	}
}

// free gives it back whatever waits in it.
func (d *decoder) free() { d.lend(nil) }

// lend replaces the buffer, by nil with none.
func (d *decoder) lend(b *buffer) {
	if d.lent != nil && d.lent.size < bufferSizes {
		buffers[d.lent.size].Put(d.lent)
	}
	if d.lent, d.buf = b, nil; b != nil {
		d.buf = b.bytes
	}
}

// next returns what comes next in the bytes read so far. After an error the rest of the stream has no meaning.
func (d *decoder) next() (item, error) {
	for {
		if d.skip == 0 {
			if it, err := d.frame(); it != itemFrame {
				return it, err
			}
		}
		n := min(d.skip, d.w-d.r)
		d.pass(n)
		if d.skip -= n; d.skip > 0 {
			return itemNone, nil
		}
		if !d.more {
			if it := d.end(); it != itemNone {
				return it, nil
			}
		}
	}
}

// frame reads one frame, or of one to be dropped the beginning.
func (d *decoder) frame() (item, error) {
	flags, head, size, err := d.header()
	if err != nil || head == 0 {
		return itemNone, err
	}
	command := flags&flagCommand != 0
	if !command && (d.drop || d.frames == d.most()) {
		d.drop = true
		d.pass(head)
		d.skip = size
		d.count(flags)
		return itemFrame, nil
	}
	begin, end := d.r+head, d.r+head+size
	if end > d.w {
		return itemNone, nil
	}
	d.r = end
	if command {
		if d.command = d.buf[begin:end]; d.frames == 0 || d.drop {
			d.keep = end
		}
		return itemCommand, nil
	}
	if d.frames == 0 {
		d.wanted = bytes.HasPrefix(d.buf[begin:end], d.topic)
		d.drop = !d.wanted
	}
	d.part[d.frames] = [2]int{begin - d.keep, end - d.keep}
	d.count(flags)
	return itemFrame, nil
}

// most is how many frames a message may have and mean something.
func (d *decoder) most() int {
	if d.answers {
		return answerFrames
	}
	return liveFrames
}

func (d *decoder) count(flags byte) {
	d.frames++
	d.more = flags&flagMore != 0
}

// pass drops the next n bytes and what was kept of their message.
func (d *decoder) pass(n int) {
	if d.drop {
		d.r += n
		d.keep = d.r
	}
}

// header reads that of the next frame: head bytes, or none if it has not come whole.
func (d *decoder) header() (flags byte, head, size int, err error) {
	b := d.buf[d.r:d.w]
	if len(b) < 2 {
		return 0, 0, 0, nil
	}
	flags, head = b[0], 2
	length := uint64(b[1])
	if flags&flagLong != 0 {
		if head = 9; len(b) < head {
			return 0, 0, 0, nil
		}
		length = binary.BigEndian.Uint64(b[1:])
	}
	if err := checkFlags(flags); err != nil {
		return 0, 0, 0, err
	}
	kept := uint64(d.r - d.keep)
	switch {
	case flags&flagCommand != 0 && length > maxCommand:
		return 0, 0, 0, fmt.Errorf("%w: command of %d bytes; the limit is %d", ErrProtocol, length, maxCommand)
	case length > maxMessage, kept+length > maxMessage:
		return 0, 0, 0, fmt.Errorf("%w: message of %d bytes or more; the limit is %d", ErrProtocol, max(length, kept+length), maxMessage)
	}
	return flags, head, int(length), nil
}

// checkFlags refuses the first byte of a frame that ZMTP 3 does not define.
func checkFlags(flags byte) error {
	if flags&^(flagMore|flagLong|flagCommand) != 0 || flags&flagCommand != 0 && flags&flagMore != 0 {
		return fmt.Errorf("%w: a frame has the flags %#02x, which ZMTP 3 does not define", ErrProtocol, flags)
	}
	return nil
}

// end is the end of a message, and returns itemNone for one that nobody wants.
func (d *decoder) end() item {
	at, n := d.buf[d.keep:], d.frames
	good := d.wanted && n == liveFrames && d.part[1][1]-d.part[1][0] == 8
	d.keep, d.frames, d.drop = d.r, 0, false
	switch {
	case d.answers:
		return d.answer(at, n)
	case good:
		d.msg.Topic = at[d.part[0][0]:d.part[0][1]]
		d.msg.Seq = binary.BigEndian.Uint64(at[d.part[1][0]:])
		d.msg.Payload = at[d.part[2][0]:d.part[2][1]]
		return itemMessage
	case d.wanted:
		d.malformed = n
		return itemMalformed
	default:
		return itemNone
	}
}
