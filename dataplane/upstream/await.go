package upstream

import (
	"errors"
	"fmt"
	"io"
)

// Await waits until a byte of the body is there, or its end. A streaming worker sends its header long before it has
// computed anything: whoever waits here before answering the client can still go to another worker.
func (r *Response) Await() error {
	if len(r.ahead) > 0 || r.err != nil || r.ended() {
		return nil //nolint:nilerr // r.err is how the body ended, which Read tells.
	}
	for {
		src, err := r.peek()
		switch {
		case err != nil:
			if err = r.fail(err); errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("cannot get first byte of the body: %w", err)
		case r.body != bodyChunked:
			return nil
		}
		// The line before a chunk is not of the body, and may be none.
		_, ns, err := r.chunks.decode(nil, src)
		_, _ = r.cn.br.Discard(ns)
		switch {
		case err != nil:
			return fmt.Errorf("cannot get first byte of the body: %w", r.finish(fmt.Errorf("%w: %w", ErrBadResponse, err)))
		case ns < len(src) || r.ended():
			return nil
		}
	}
}
