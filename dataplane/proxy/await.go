package proxy

import (
	"errors"
	"fmt"
	"io"
)

// Await waits until a byte of the body is there, or its end. A streaming worker sends its header long before it has
// computed anything: whoever waits here before answering the client can still go to another worker.
func (r *Response) Await() error {
	if r.ready() {
		return nil
	}
	_, err := r.peek()
	if err == nil {
		return nil
	}
	if err = r.fail(err); !errors.Is(err, io.EOF) {
		return fmt.Errorf("cannot get first byte of the body: %w", err)
	}
	return nil
}
