package upstream

import (
	"bufio"
	"bytes"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// Pass makes r the answer, now, with lines before the end of its head, and takes over its Close, if all of it is here and it is short; else
// it returns false and has done nothing. obs is told as Forward tells it.
func (in *Inbound) Pass(r *Response, obs Observer, lines []byte, now time.Time) bool {
	n := int(r.left)
	if !r.plain || r.ahead != nil || r.cn == nil || n > r.cn.buffered() || len(r.raw)+len(lines)+n > maxWhole {
		return false
	}
	spare := &in.cl.l.spare
	room := spare.Get().(*aheadBuffer) //nolint:forcetypeassert // Nothing else is put there.
	out := r.appendHead(room[:0])
	out = append(out, lines...)
	if r.Peek("date") == nil {
		out = appendDate(out, now) // RFC 9110 6.6.1
	}
	if in.last || in.cl.l.plain.Closing() {
		out = append(out, "Connection: close\r\n"...)
		in.err = errLast
	}
	out = append(out, '\r', '\n')
	if n > 0 {
		p, _ := r.next() // it is here
		obs.Body(p)
		out = append(out, p...)
	}
	in.done, in.now = true, now
	if r.cn != nil {
		r.cn.now = now
	}
	_ = r.Close()
	obs.Closed(nil)
	if _, err := in.cl.Write(out); err != nil {
		in.err = err
	}
	spare.Put(room)
	return true
}

// dateLine is the Date of one second.
type dateLine struct {
	second int64
	line   []byte
}

var lastDate atomic.Pointer[dateLine]

func appendDate(dst []byte, now time.Time) []byte {
	d := lastDate.Load()
	if d == nil || d.second != now.Unix() {
		d = &dateLine{now.Unix(), append(fasthttp.AppendHTTPDate([]byte("Date: "), now.UTC()), '\r', '\n')}
		lastDate.Store(d)
	}
	return append(dst, d.line...)
}

// parsePlain reads the head of an answer if it is a plain one that is here as a whole: of known length, on a connection that stays open,
// with a status that says nothing of the connection. Its fields stay where they are.
func (r *Response) parsePlain() bool {
	b, _ := r.cn.br.Peek(r.cn.br.Buffered())
	b = b[:min(len(b), r.t.cfg.MaxHeaderBytes, 1<<16-1)]
	if len(b) < len("HTTP/1.1 200 \r\n") || string(b[:len("HTTP/1.1 ")]) != "HTTP/1.1 " || b[12] != ' ' {
		return false
	}
	status := 0
	for _, c := range b[9:12] {
		if c < '0' || c > '9' {
			return false
		}
		status = status*10 + int(c-'0')
	}
	line := bytes.IndexByte(b, '\n') + 1
	if status < 200 || status > 599 || status == fasthttp.StatusNoContent || status == fasthttp.StatusNotModified || line < 15 || b[line-2] != '\r' {
		return false
	}
	for _, c := range b[12 : line-2] {
		if !valueByte[c] {
			return false
		}
	}
	var end int
	r.fields, end = appendFields(r.fields[:0], b, line)
	if end <= 0 {
		return false
	}
	for i := range r.fields {
		if r.fields[i].kind >= fieldClose {
			return false
		}
	}
	n := oneLength(b, r.fields)
	if n < 0 {
		return false
	}
	r.raw = append(r.raw[:0], b[:end]...)
	r.line, r.plain, r.Status = line, true, status
	r.body, r.left, r.keep = bodyFixed, int64(n), true
	_, _ = r.cn.br.Discard(end)
	return true
}

// appendHead appends the head, less its last line, for another connection.
func (r *Response) appendHead(dst []byte) []byte {
	dst = append(dst, r.raw[:r.line]...)
	for i := range r.fields {
		f := &r.fields[i]
		if name := r.raw[f.name:f.colon]; f.kind == fieldPasses && !ownField(name) || f.kind == fieldLength {
			dst = appendLine(dst, name, r.raw[f.value:f.end])
		}
	}
	return dst
}

// ownField reports whether a field is one that a router says of its own answer.
func ownField(k []byte) bool {
	const prefix = "x-warmpath-"
	return len(k) > len(prefix) && fold(k[:len(prefix)], prefix)
}

// readRaw has fasthttp read what parsePlain has read.
func (r *Response) readRaw() {
	if !r.plain {
		return
	}
	r.plain = false
	_ = r.Header.Read(bufio.NewReaderSize(bytes.NewReader(r.raw), len(r.raw)+1)) // it takes what parsePlain takes: see FuzzPlainAnswer
}

// Peek returns the value of a field of the answer's header, nil where there is none.
func (r *Response) Peek(name string) []byte {
	if r.plain {
		return peekField(r.raw, r.fields, name)
	}
	return r.Header.Peek(name)
}
