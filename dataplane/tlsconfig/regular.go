package tlsconfig

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// maxFile bounds certificates, keys and lists of authorities: those of a whole system have 250 KB.
const maxFile = 1 << 20

// ReadFile returns the content of a regular file of at most so many bytes. One that is read again
// and again may become anything: to open a pipe waits for its other end, and a device has no end.
func ReadFile(file string, most int64) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", file)
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s is larger than %d bytes", file, most)
	}
	return text, err
}
