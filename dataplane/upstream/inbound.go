package upstream

import (
	"bufio"
	"math/bits"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// Plain answers plain requests: those that say what they want in the one usual way, of which all readers of HTTP think the same. They are a
// router's daily work, and are read and answered here, at a fraction of what it costs to be ready for the others, which go to fasthttp. A
// plain request is a POST of HTTP/1.1 with one Host, and one Content-Length or a chunked body.
type Plain struct {
	// Takes reports whether Serve answers a request to target, which is what stood in the request's line, and whose body has length bytes.
	Takes func(target []byte, length int) bool
	// Serve answers: by Inbound.Pass, or by what it writes to Inbound.Ctx.
	Serve func(in *Inbound)
	// Refuse makes ctx's response say what is wrong with a request that cannot be read: ErrRequest, ErrBodyTooLarge, ErrTrailer, or how reading it
	// has failed. The connection ends with it.
	Refuse func(ctx *fasthttp.RequestCtx, err error)
	// MaxBody is the longest body of any request, in bytes.
	MaxBody func() int
	// Closing reports whether connections end with the next answer.
	Closing func() bool
	// Idle is the longest wait for the next request.
	Idle time.Duration
	// MaxHead is the longest head, in bytes.
	MaxHead int
	// MaxClients is how many connections there may be at once; others wait to be accepted until one ends. 0: any number.
	MaxClients int
	// Full, which may be nil, is told whenever one has to wait.
	Full func()
}

// Inbound is a plain request. It must not be used after Plain.Serve has returned.
type Inbound struct {
	cl     *Client
	buf    []byte // head and body
	head   int    // bytes of the head
	target []byte
	fields []field
	large  *memory // what buf is in, where it is large
	ctx    *fasthttp.RequestCtx
	done   bool      // it was answered by Pass
	now    time.Time // when it was
	err    error

	last    bool // the client wants no other answer on its connection
	asks    bool // and waits to be told to send the body
	chunked bool
	chunks  upload
}

// A request's line, less its target.
const (
	lineBegin = "POST "
	lineEnd   = " HTTP/1.1\r\n"
)

// parse reads the head at the beginning of b. size is that of the request with its body, or of the head alone where in.chunked says that chunks
// follow, or headShort, or headOdd.
func (in *Inbound) parse(b []byte, p *Plain) (size int) {
	b = b[:min(len(b), len(aheadBuffer{}))]
	if len(b) < len(lineBegin) {
		if lineBegin[:len(b)] == string(b) {
			return headShort
		}
		return headOdd
	}
	if string(b[:len(lineBegin)]) != lineBegin || len(b) > len(lineBegin) && b[len(lineBegin)] != '/' {
		return headOdd
	}
	at := len(lineBegin)
	for at < len(b) && (nameByte[b[at]] || b[at] == '/') {
		at++
	}
	rest := b[at:]
	if len(rest) < len(lineEnd) {
		if lineEnd[:len(rest)] == string(rest) {
			return headShort
		}
		return headOdd
	}
	if string(rest[:len(lineEnd)]) != lineEnd {
		return headOdd
	}
	in.target = b[len(lineBegin):at]
	in.fields, in.head = appendFields(in.fields[:0], b, at+len(lineEnd))
	if in.head <= 0 {
		return in.head
	}
	n := in.frame(b)
	if n < 0 || in.head > p.MaxHead || !p.Takes(in.target, n) {
		return headOdd
	}
	return in.head + n
}

// frame says what the head's fields, which are all plain, say together: the length of what follows, 0 where that is chunks, or headOdd.
func (in *Inbound) frame(b []byte) (length int) {
	hosts, codings, lengths := 0, 0, 0
	in.last, in.asks = false, false
	for i := range in.fields {
		switch f := &in.fields[i]; f.kind {
		case fieldHost:
			if hosts++; !plainHost(b[f.value:f.end]) {
				return headOdd
			}
		case fieldLength:
			lengths++
		case fieldCoding:
			codings++
		case fieldClose:
			in.last = true
		case fieldExpect:
			in.asks = true
		}
	}
	in.chunked = codings == 1
	switch {
	case hosts != 1 || codings+lengths != 1:
		return headOdd
	case in.chunked:
		return 0
	}
	return oneLength(b, in.fields)
}

// plainHost reports whether a host is made of what names, addresses and ports are made of.
func plainHost(host []byte) bool {
	for _, c := range host {
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && c != '.' && c != '-' && c != ':' && c != '[' && c != ']' && c != '_' {
			return false
		}
	}
	return len(host) > 0
}

// take keeps a copy of what there is of the request of size bytes that parse has read from b. Room for the rest comes with the rest.
func (in *Inbound) take(b []byte, size int) {
	switch size = roomFor(size, len(b)); {
	case size > keptInbound:
		in.large = memoryOf(size)
		in.buf = in.large.b[:0]
	case cap(in.buf) < size:
		in.buf = make([]byte, 0, max(size, leastInbound))
	}
	in.buf = append(in.buf[:0], b...)
	in.target = in.buf[len(lineBegin):][:len(in.target)]
}

// grow makes more room, where what has come has filled it.
func (in *Inbound) grow(size int) { in.enlarge(max(roomFor(size, len(in.buf)), keptInbound+1)) }

// enlarge makes room for size bytes in all.
func (in *Inbound) enlarge(size int) {
	old := in.large
	if size > keptInbound {
		in.large = memoryOf(size)
		in.buf = append(in.large.b[:0], in.buf...)
	} else {
		in.buf = append(make([]byte, 0, size), in.buf...)
	}
	in.target = in.buf[len(lineBegin):][:len(in.target)]
	if old != nil {
		old.release()
	}
}

// roomFor is how much memory a request of size bytes gets when come of them have come: at most promised times as much, so that a length costs
// those who lie about it as much as us. Steps end at the whole size, so that a long body is copied by a fifteenth of its length at most.
func roomFor(size, come int) int {
	for size > keptInbound && size/promised > come {
		size /= promised
	}
	return size
}

const promised = 16

// Method returns POST.
func (in *Inbound) Method() []byte { return in.buf[:len(lineBegin)-1] }

// Target returns what was asked for.
func (in *Inbound) Target() []byte { return in.target }

// Body returns the body, whole.
func (in *Inbound) Body() []byte { return in.buf[in.head:] }

// Peek returns the value of the first field of a name, nil where there is none.
func (in *Inbound) Peek(name string) []byte { return peekField(in.buf, in.fields, name) }

// Client returns who asks.
func (in *Inbound) Client() *Client { return in.cl }

// AppendLines is what the function AppendLines does for a header that fasthttp has read.
func (in *Inbound) AppendLines(dst []byte, extra []Field) []byte {
	for i := range in.fields {
		f := &in.fields[i]
		if f.kind != fieldPasses || replaced(extra, in.buf[f.name:f.colon]) {
			continue
		}
		dst = appendLine(dst, in.buf[f.name:f.colon], in.buf[f.value:f.end])
	}
	return dst
}

// Ctx returns a context of which the response becomes the answer. Its request is empty, but for who has sent it.
func (in *Inbound) Ctx() *fasthttp.RequestCtx {
	if in.ctx == nil {
		in.ctx = contextOf(in.cl)
	}
	return in.ctx
}

// contextOf returns a context without a request; releaseContext takes it back.
func contextOf(cl *Client) *fasthttp.RequestCtx {
	ctx := contexts.Get().(*fasthttp.RequestCtx) //nolint:forcetypeassert // Nothing else is put there.
	ctx.Init2(cl, nil, true)
	ctx.Response.Header.SetNoDefaultContentType(true)
	return ctx
}

func releaseContext(ctx *fasthttp.RequestCtx) {
	ctx.Response.Reset() // which closes the body, if it was not written
	ctx.Init2(nil, nil, true)
	contexts.Put(ctx)
}

var (
	inbounds = sync.Pool{New: func() any { return new(Inbound) }}
	contexts = sync.Pool{New: func() any { return new(fasthttp.RequestCtx) }}
	writers  = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 4<<10) }}
)

// finish sends what Serve has put into the context, and reports whether the connection lives on.
func (in *Inbound) finish(closing func() bool) bool {
	if in.ctx == nil {
		return in.done && in.err == nil
	}
	if in.done { // the context was asked for something else
		in.dropCtx()
		return in.err == nil
	}
	resp := &in.ctx.Response
	if in.last || closing() {
		resp.SetConnectionClose()
	}
	last := resp.ConnectionClose()
	w := writers.Get().(*bufio.Writer) //nolint:forcetypeassert // Nothing else is put there.
	w.Reset(in.cl)
	err := resp.Write(w)
	if err == nil {
		err = w.Flush()
	}
	w.Reset(nil)
	writers.Put(w)
	in.dropCtx()
	return err == nil && !last
}

// dropCtx gives the context back.
func (in *Inbound) dropCtx() {
	releaseContext(in.ctx)
	in.ctx = nil
}

const (
	leastInbound = 1 << 10
	keptInbound  = 16 << 10 // what a pooled Inbound keeps at most
)

func (in *Inbound) release() {
	in.cl, in.target, in.done, in.err = nil, nil, false, nil
	in.now = time.Time{}
	if in.large != nil {
		in.large.release()
		in.large, in.buf = nil, nil
	}
	if cap(in.chunks.trailer) > keptInbound {
		in.chunks.trailer = nil
	}
	inbounds.Put(in)
}

// memory is room for a large request. fasthttp's own pool for bodies (1.74) drops the largest of them, by what it has seen before: where
// most are small, each large one would be allocated anew.
type memory struct{ b []byte }

// headRoom is what memory has beyond a power of two: bodies of 64 KiB are common, and with their heads they would take twice that.
const headRoom = 4 << 10

// memories are by size: the first ones have twice keptInbound, and those after have twice the ones before, up to 64 MiB; all have headRoom
// besides. Larger memory is not kept.
var memories [12]sync.Pool

// memoryOf returns memory for size bytes, which are more than keptInbound.
func memoryOf(size int) *memory {
	class := max(bits.Len(uint(size-headRoom-1)/keptInbound)-1, 0) // keptInbound is more than headRoom
	if class >= len(memories) {
		return &memory{make([]byte, size)}
	}
	if m, ok := memories[class].Get().(*memory); ok {
		return m
	}
	return &memory{make([]byte, 2*keptInbound<<class+headRoom)}
}

func (m *memory) release() {
	n := len(m.b) - headRoom
	if class := bits.Len(uint(n)/keptInbound) - 2; class < len(memories) && n == 2*keptInbound<<class {
		memories[class].Put(m)
	}
}
