package hint

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Version of the messages. Another one may mean anything, and is refused.
const Version = 1

// MaxBytes bounds a message: NATS takes 1 MiB by default, and its headers come on top.
const MaxBytes = 1<<20 - 4096

// maxName bounds the name of a node, as package cluster does.
const maxName = 255

var (
	// ErrMalformed is a message that is cut off, too long or contradicts itself.
	ErrMalformed = errors.New("hint: malformed message")
	// ErrVersion is a message of a version that is not known here.
	ErrVersion = errors.New("hint: message of another version")
)

// Subject is where the sidecar of a node listens: one token of hexadecimal digits, since a name may hold anything.
func Subject(node string) string { return "hint." + hex.EncodeToString([]byte(node)) }

// Message is one hint, as it is read.
type Message struct {
	PageSize int
	Have     int
	Model    []byte
	Salt     []byte
	IDs      []byte // of tokens, 4 bytes each
	From     []byte
	// Same are the bytes in which two hints for the same pages are equal, whoever sent them.
	Same []byte
}

// Tokens is the number of token ids.
func (m *Message) Tokens() int { return len(m.IDs) / 4 }

// Pages is what a hint asks for.
type Pages struct {
	PageSize int // tokens of a page; 0 is any
	Have     int // leading tokens that the engine has itself
	Model    string
	Salt     string
	Tokens   []uint32 // the prompt's, from the first on
}

const fixed = 1 + 4 + 4 + 2 + 2 + 4 // bytes of a message without texts and ids

// Append writes p to dst, which AppendFrom completes. Where it is too long, tokens are cut to as many whole pages as there is room for. It
// returns how many tokens were written: 0 where nothing of use is left (dst is then as it was), or where a text is longer than 64 KiB.
func Append(dst []byte, p *Pages) (message []byte, tokens int) {
	if len(p.Model) > math.MaxUint16 || len(p.Salt) > math.MaxUint16 || p.PageSize < 0 || p.PageSize > math.MaxInt32 {
		return dst, 0
	}
	tokens = len(p.Tokens)
	if room := (MaxBytes - fixed - len(p.Model) - len(p.Salt) - maxName) / 4; tokens > room {
		tokens = room
	}
	if p.PageSize > 0 {
		tokens -= tokens % p.PageSize
	}
	if p.Have < 0 || tokens <= p.Have {
		return dst, 0
	}
	dst = append(dst, Version)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(p.PageSize))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(p.Have))
	dst = append(binary.LittleEndian.AppendUint16(dst, uint16(len(p.Model))), p.Model...)
	dst = append(binary.LittleEndian.AppendUint16(dst, uint16(len(p.Salt))), p.Salt...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(tokens))
	at := len(dst)
	dst = slices.Grow(dst, 4*tokens)[:at+4*tokens]
	ids := dst[at:]
	for _, id := range p.Tokens[:tokens] {
		binary.LittleEndian.PutUint32(ids, id)
		ids = ids[4:]
	}
	return dst, tokens
}

// AppendFrom completes a message with the name of the node that is expected to have the pages. A name that cannot be is left out.
func AppendFrom(dst []byte, node string) []byte {
	if len(node) > maxName {
		return dst
	}
	return append(dst, node...)
}

// Parse reads a message. It aliases data.
func Parse(data []byte) (m Message, err error) {
	r := reader{left: data}
	version := r.take(1)
	if version == nil || len(data) > MaxBytes {
		return m, fmt.Errorf("%w: %d bytes", ErrMalformed, len(data))
	}
	if version[0] != Version {
		return m, fmt.Errorf("%w: %d, and this process knows %d", ErrVersion, version[0], Version)
	}
	page, have := r.number(), r.number()
	m.Model, m.Salt = r.text(), r.text()
	tokens := r.number()
	m.IDs = r.take(4 * tokens)
	switch {
	case r.short:
		return Message{}, fmt.Errorf("%w: %d bytes are not all of it", ErrMalformed, len(data))
	case page > math.MaxInt32 || have >= tokens || (page > 0 && tokens%page != 0):
		return Message{}, fmt.Errorf("%w: %d tokens, of which %d are there, in pages of %d", ErrMalformed, tokens, have, page)
	case len(r.left) > maxName:
		return Message{}, fmt.Errorf("%w: %d bytes behind it", ErrMalformed, len(r.left))
	}
	m.PageSize, m.Have, m.From, m.Same = page, have, r.left, data[:len(data)-len(r.left)]
	return m, nil
}

// reader takes a message apart. short notes that there was too little of it.
type reader struct {
	left  []byte
	short bool
}

func (r *reader) take(n int) []byte {
	if r.short || n > len(r.left) {
		r.short = true
		return nil
	}
	taken := r.left[:n:n]
	r.left = r.left[n:]
	return taken
}

func (r *reader) number() int {
	if b := r.take(4); b != nil {
		return int(binary.LittleEndian.Uint32(b))
	}
	return 0
}

func (r *reader) text() []byte {
	if b := r.take(2); b != nil {
		return r.take(int(binary.LittleEndian.Uint16(b)))
	}
	return nil
}
