//go:build !cgo || !linux

package cgo

// NIXL is a loaded library; there is none in this build.
type NIXL struct{}

// Agent is an agent of the library; there is none in this build.
type Agent struct{}

// Open returns ErrUnavailable.
func Open(string) (*NIXL, error) { return nil, ErrUnavailable }

// CreateAgent returns ErrUnavailable.
func (*NIXL) CreateAgent(string) (Agent, error) { return Agent{}, ErrUnavailable }

// DestroyAgent returns ErrUnavailable.
func (*NIXL) DestroyAgent(Agent) error { return ErrUnavailable }

// Plugins returns ErrUnavailable.
func (*NIXL) Plugins(Agent) ([]string, error) { return nil, ErrUnavailable }
