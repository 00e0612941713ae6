package upstream

import (
	"errors"
	"fmt"
)

// Do sends req and returns as soon as the header of the final answer is parsed. c may be nil;
// else Cancel ends the request at any time until the Response is closed. A kept-alive
// connection that turns out to be dead before any byte of an answer is replaced by a new one,
// once, unless req.Once leaves that to the caller. Any error means that nothing is left open.
func (t *Transport) Do(c *Canceler, req *Request) (*Response, error) {
	var before error
	for fresh := req.Fresh; ; fresh = true {
		cn, err := t.connect(c, &req.Target, fresh, req.Now)
		if err != nil {
			if before != nil && errors.Is(err, ErrDial) {
				err = before // the worker may have died of the request
			}
			return nil, err
		}
		resp, err := t.roundTrip(c, cn, req)
		if err == nil {
			return resp, nil
		}
		if fresh || !cn.reused || !errors.Is(err, ErrNoResponse) {
			return nil, err
		}
		if req.Once {
			return nil, fmt.Errorf("%w: %w", ErrStale, err)
		}
		before = err
	}
}

// roundTrip sends req over cn and reads the header of the answer. It owns cn: after a failure
// the connection is gone.
func (t *Transport) roundTrip(c *Canceler, cn *conn, req *Request) (*Response, error) {
	var err error
	if cn.out.head, err = req.appendHead(cn.out.head[:0]); err != nil {
		t.discard(cn)
		return nil, err
	}
	if err := c.bind(cn); err != nil {
		t.discard(cn)
		return nil, err
	}
	r := t.acquire(c, cn)
	cn.send(req.Body)
	err = r.readHeader(req)
	if err == nil {
		return r, nil
	}
	// Close first: it wakes the writer, if one is still at it.
	cn.abort()
	cn.out.finish()
	if c.unbind() {
		err = ErrCanceled
	}
	t.discard(cn)
	t.release(r)
	return nil, fmt.Errorf("cannot get response of %s: %w", req.Target.Addr, err)
}

// acquire readies a Response.
func (t *Transport) acquire(c *Canceler, cn *conn) *Response {
	r, ok := t.responses.Get().(*Response)
	if !ok {
		r = &Response{t: t}
		// A body without a type stays one: fasthttp would add text/plain.
		r.Header.SetNoDefaultContentType(true)
	}
	r.c, r.cn, r.err = c, cn, nil
	return r
}

// release makes a Response available to other requests.
func (t *Transport) release(r *Response) {
	if z, ok := r.change.(*compressor); ok {
		z.release()
	}
	r.c, r.cn, r.ahead, r.change = nil, nil, nil, nil
	r.stream = Stream{}
	r.events.reset()
	t.responses.Put(r)
}
