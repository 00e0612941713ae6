package hint

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/warmpath/warmpath/dataplane/cluster/codec"
)

// Version of the format. Messages of other versions are refused.
const Version = 1

// MaxBytes bounds a message: NATS takes 1 MiB by default, headers included.
const MaxBytes = 1<<20 - 4096

// maxName bounds the name of a node, as package cluster does.
const maxName = 255

// ErrMalformed is a message of another version, or one that is cut off, too long or contradicts
// itself.
var ErrMalformed = errors.New("hint: malformed message")

// Subject returns the subject on which the sidecar of a node listens. The name is hexadecimal, as
// it may have characters that subjects must not.
func Subject(node string) string { return "hint." + hex.EncodeToString([]byte(node)) }

// Message is a parsed hint.
type Message struct {
	PageSize int
	Have     int
	Model    []byte
	Salt     []byte
	IDs      []byte // of tokens, 4 bytes each
	From     []byte
	// Pages is the message without From: two hints for the same pages have equal bytes there.
	Pages []byte
}

// Tokens is the number of token ids.
func (m *Message) Tokens() int { return len(m.IDs) / 4 }

// Pages describes the pages to pull.
type Pages struct {
	PageSize int // tokens of a page; 0 is any
	Have     int // leading tokens in the engine's prefix cache
	Model    string
	Salt     string
	Tokens   []uint32 // of the prompt, from the first on
}

const fixedBytes = 1 + 4 + 4 + 2 + 2 + 4 // message without texts and ids

// Append appends p to dst; AppendFrom completes the message. Tokens are cut to the whole pages that
// fit MaxBytes. It returns the number of tokens written, and dst unchanged and 0 where no page is
// left to pull or a text is longer than 64 KiB.
func Append(dst []byte, p *Pages) (message []byte, tokens int) {
	if len(p.Model) > math.MaxUint16 || len(p.Salt) > math.MaxUint16 || p.PageSize < 0 || p.PageSize > math.MaxInt32 {
		return dst, 0
	}
	tokens = min(len(p.Tokens), (MaxBytes-fixedBytes-len(p.Model)-len(p.Salt)-maxName)/4)
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

// AppendFrom completes a message with the node that is expected to have the pages. A name that is
// too long is left out.
func AppendFrom(dst []byte, node string) []byte {
	if len(node) > maxName {
		return dst
	}
	return append(dst, node...)
}

// Parse reads a message. The result aliases data.
func Parse(data []byte) (m Message, err error) {
	r := codec.NewReader(data)
	version := r.Byte()
	if r.Err() != nil || len(data) > MaxBytes {
		return m, fmt.Errorf("%w: %d bytes", ErrMalformed, len(data))
	}
	if version != Version {
		return m, fmt.Errorf("%w: version %d, and this process knows %d", ErrMalformed, version, Version)
	}
	page, have := int(r.Uint32()), int(r.Uint32())
	m.Model, m.Salt = text(&r), text(&r)
	tokens := int(r.Uint32())
	m.IDs = r.Take(4 * tokens)
	m.Pages = data[:len(data)-r.Len()]
	m.From = r.Rest()
	switch {
	case r.Err() != nil:
		return Message{}, fmt.Errorf("%w: %w", ErrMalformed, r.Err())
	case page > math.MaxInt32 || have >= tokens || (page > 0 && tokens%page != 0):
		return Message{}, fmt.Errorf("%w: %d tokens, of which the engine has %d, in pages of %d", ErrMalformed, tokens, have, page)
	case len(m.From) > maxName:
		return Message{}, fmt.Errorf("%w: %d bytes after the tokens", ErrMalformed, len(m.From))
	}
	m.PageSize, m.Have = page, have
	return m, nil
}

func text(r *codec.Reader) []byte { return r.Take(int(r.Uint16())) }
