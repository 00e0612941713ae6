package regularfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

var (
	// ErrNotRegular is a folder, a device, a pipe or a socket.
	ErrNotRegular = errors.New("not a regular file")
	// ErrTooLarge is a file of more bytes than allowed.
	ErrTooLarge = errors.New("too large")
)

// Read returns the content of a regular file of at most so many bytes.
func Read(file string, most int64) ([]byte, error) {
	f, err := Open(file, os.Stat, os.OpenFile)
	if errors.Is(err, ErrNotRegular) {
		return nil, fmt.Errorf("%s is not a regular file", file)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	text, err := Content(f, most)
	if errors.Is(err, ErrTooLarge) {
		err = fmt.Errorf("%s is larger than %d bytes", file, most)
	}
	return text, err
}

// Open opens a file that is regular, by functions such as os.Stat and os.OpenFile. It is looked at
// before, and again then, since another file may have come meanwhile.
func Open(name string, stat func(string) (fs.FileInfo, error), open func(string, int, fs.FileMode) (*os.File, error)) (*os.File, error) {
	info, err := stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, ErrNotRegular
	}
	f, err := open(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opens a pipe at once
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = ErrNotRegular
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Content reads a file up to its end, which may be beyond the size that it says: files of /proc are
// larger.
func Content(f *os.File, most int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var content bytes.Buffer
	if info.Size() <= most {
		content.Grow(int(info.Size()) + bytes.MinRead)
		_, err = content.ReadFrom(io.LimitReader(f, most+1))
	}
	if info.Size() > most || int64(content.Len()) > most {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, most)
	}
	return content.Bytes(), err
}
