package zmq

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
)

// Bits of a frame's first byte (ZMTP 3.1, "framing"): the length that follows has one byte, or
// eight if it is long.
const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

const (
	// readSize bounds one system call: about 50 events of 32 blocks.
	readSize = 64 << 10
	// maxCommand bounds a command: PING has 20 bytes, READY any metadata of the peer's
	// application.
	maxCommand = 64 << 10
	// liveFrames counts topic, sequence and payload.
	liveFrames = 3
	// answerFrames counts an empty frame before the same three.
	answerFrames = 4
)

// buffers are lent to decoders only while bytes wait in them, so that thousands of silent
// streams need none. The sizes double from pool to pool, beginning with readSize: the event of
// a prompt of 16,000 tokens has 85 KB.
var buffers [bufferSizes]sync.Pool

// bufferSizes bounds the pooled buffers: the largest has 2 MiB, a message of 400,000 tokens.
const bufferSizes = 6

// buffer is an entry of a pool. A bare slice would be copied to the heap at each Put.
type buffer struct {
	bytes []byte
	size  int // Index of its pool; larger for a buffer that is not pooled.
}

// borrow returns a buffer of readSize << size bytes.
func borrow(size int) *buffer {
	if size < bufferSizes {
		if b, ok := buffers[size].Get().(*buffer); ok {
			return b
		}
	}
	return &buffer{make([]byte, readSize<<size), size}
}

// item is the kind of a decoder's result.
type item uint8

const (
	itemNone      item = iota // More bytes are needed.
	itemFrame                 // One frame of a longer message; next does not return it.
	itemMessage               // In decoder.msg.
	itemMalformed             // Wrong number of frames (decoder.malformed) or size of sequence.
	itemCommand               // In decoder.command.
)

// decoder cuts a connection's bytes into messages and commands. It holds an incomplete message in
// memory that grows with the bytes received, and not with the length that a peer announces.
type decoder struct {
	topic   []byte // Prefix of the wanted topics; publishers filter too.
	answers bool   // Messages are answers to a replay request.

	lent *buffer // nil while no byte waits.
	buf  []byte  // Its bytes.
	size int     // Of the next buffer: the last message needed it.
	keep int     // buf[keep:r] is the current message, and commands between its frames.
	r, w int     // buf[r:w] is not decoded yet.

	// The current message.
	frames int                  // Frames that have begun.
	part   [answerFrames][2]int // Begin and end of the first frames, from keep.
	wanted bool                 // The topic matches.
	// The message is unwanted or has too many frames; no byte of it is kept.
	drop bool
	skip int  // Bytes still to come of a dropped frame.
	more bool // Another frame follows.

	// Results of next. The slices alias buf until the next call of room or release.
	msg       Message
	command   []byte
	malformed int
}

// room returns the free part of the buffer, at least one byte.
func (d *decoder) room() []byte {
	switch {
	case d.buf == nil:
		d.lend(borrow(d.size))
	case d.keep > 0: // At most once a message: the rest is short, or long and then stays in front.
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

// release returns the buffer to its pool if no byte waits in it.
func (d *decoder) release() {
	if d.buf != nil && d.keep == d.w {
		// Half the size, if that would have been enough: one long message is soon forgotten.
		if d.size = min(d.lent.size, bufferSizes-1); d.w <= len(d.buf)/2 {
			d.size = max(0, d.size-1)
		}
		d.lend(nil)
		d.keep, d.r, d.w = 0, 0, 0
	}
}

// free returns the buffer, and drops bytes that wait in it.
func (d *decoder) free() { d.lend(nil) }

// lend replaces the buffer; b may be nil.
func (d *decoder) lend(b *buffer) {
	if d.lent != nil && d.lent.size < bufferSizes {
		buffers[d.lent.size].Put(d.lent)
	}
	if d.lent, d.buf = b, nil; b != nil {
		d.buf = b.bytes
	}
}

// next returns the next item in the bytes read so far. After an error the rest of the stream
// cannot be decoded.
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

// frame reads one frame. Of a frame to be dropped it reads only the header.
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

// most returns the number of frames of a well-formed message.
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

// pass drops the next n bytes of a message to be dropped, with all before them.
func (d *decoder) pass(n int) {
	if d.drop {
		d.r += n
		d.keep = d.r
	}
}

// header reads the next frame's header of head bytes; head is 0 if it is incomplete.
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

// end completes a message. It returns itemNone for a topic that does not match.
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
