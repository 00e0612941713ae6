//go:build !cgo || !linux

package nvml

import "fmt"

// Reader reads nothing in this build.
type Reader struct{}

// New returns a reader that finds no driver.
func New(Config) *Reader { return &Reader{} }

// Read returns ErrNoDriver.
func (*Reader) Read() ([]GPU, error) {
	return nil, fmt.Errorf("%w: this binary was built without cgo", ErrNoDriver)
}

// Driver returns ErrNoDriver.
func (r *Reader) Driver() (Driver, error) {
	_, err := r.Read()
	return Driver{}, err
}

// Close does nothing.
func (*Reader) Close() error { return nil }
