//go:build !cgo || !linux

package cgo

// Library is a loaded library; this build cannot load one.
type Library struct{}

// Open returns ErrUnavailable.
func Open(string) (*Library, error) { return nil, ErrUnavailable }
