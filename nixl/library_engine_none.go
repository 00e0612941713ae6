//go:build !cgo || !linux

package nixl

import "github.com/warmpath/warmpath/cgo"

// Open returns cgo.ErrUnavailable.
func (*Library) Open(string, string) (Engine, error) { return nil, cgo.ErrUnavailable }

func (*Library) plugins(string) ([]string, error) { return nil, cgo.ErrUnavailable }
