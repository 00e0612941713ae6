package socket

import "sync"

// Buffer is as much as is read from a connection at once: a request's head with a body of usual
// size, or several events of a stream.
type Buffer [16 << 10]byte

var buffers = sync.Pool{New: func() any { return new(Buffer) }}

// TakeBuffer returns a Buffer with any content.
func TakeBuffer() *Buffer { return buffers.Get().(*Buffer) } //nolint:forcetypeassert // Nothing else is put there.

// Release makes b available to others.
func (b *Buffer) Release() { buffers.Put(b) }

// AheadReader is a connection that needs no buffer while it waits for bytes.
type AheadReader interface {
	// ReadAhead takes a Buffer once there are bytes to read, and reads them into it. The Buffer
	// is nil where err is not.
	ReadAhead() (b *Buffer, n int, err error)
}
