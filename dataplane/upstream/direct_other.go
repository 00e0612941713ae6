//go:build !linux

package upstream

import "errors"

var errWouldBlock = errors.New("upstream: would block")

// receive and vectors are not reached where directIO is false.
func receive(uintptr, []byte) (int, error) { return 0, errWouldBlock }

type vectors struct{}

func (v *vectors) sendParts(uintptr, [][]byte) (int, error) { return 0, errWouldBlock }
