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

// buffers are lent to decoders while something waits in them, so that thousands of streams that are silent need none.
var buffers = sync.Pool{New: func() any { return new([readSize]byte) }}

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

	buf  []byte // Lent by buffers, or larger; nil while nothing waits.
	keep int    // buf[keep:r] is the message under way, and commands that stand in it.
	r, w int    // buf[r:w] is not looked at yet.

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
		d.buf = buffers.Get().(*[readSize]byte)[:]
	case d.keep > 0: // Once a message at most: what follows it is short then, or is long and stays at the front.
		copy(d.buf, d.buf[d.keep:d.w])
		d.r, d.w, d.keep = d.r-d.keep, d.w-d.keep, 0
	}
	if d.w == len(d.buf) {
		grown := make([]byte, 2*len(d.buf))
		copy(grown, d.buf)
		d.lend(grown)
	}
	return d.buf[d.w:]
}

// release gives the memory back where nothing waits in it.
func (d *decoder) release() {
	if d.buf != nil && d.keep == d.w {
		d.lend(nil)
		d.keep, d.r, d.w = 0, 0, 0
	}
}

// free gives it back whatever waits in it.
func (d *decoder) free() { d.lend(nil) }

// lend replaces the buffer. One that had to grow is left to the garbage collector: the next message is short again.
func (d *decoder) lend(buf []byte) {
	if len(d.buf) == readSize {
		buffers.Put((*[readSize]byte)(d.buf))
	}
	d.buf = buf
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
	kept := uint64(d.r - d.keep)
	switch {
	case flags&^(flagMore|flagLong|flagCommand) != 0, flags&flagCommand != 0 && flags&flagMore != 0:
		return 0, 0, 0, fmt.Errorf("%w: a frame has the flags %#02x, which ZMTP 3 does not know", ErrProtocol, flags)
	case flags&flagCommand != 0 && length > maxCommand:
		return 0, 0, 0, fmt.Errorf("%w: command of %d bytes; the limit is %d", ErrProtocol, length, maxCommand)
	case length > maxMessage, kept+length > maxMessage:
		return 0, 0, 0, fmt.Errorf("%w: message of %d bytes or more; the limit is %d", ErrProtocol, max(length, kept+length), maxMessage)
	}
	return flags, head, int(length), nil
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
