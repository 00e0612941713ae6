//go:build !cgo || !linux

package cgo

import (
	"sync/atomic"
	"time"
)

// NIXL is a loaded library; there is none in this build, so no method of it is ever called.
type NIXL struct{}

// Agent is an agent of the library; there is none in this build.
type Agent struct{}

// Request is a transfer that the library knows; there is none in this build.
type Request struct{}

// Open returns ErrUnavailable.
func Open(string) (*NIXL, error) { return nil, ErrUnavailable }

// CreateAgent returns ErrUnavailable, as do all methods.
func (*NIXL) CreateAgent(string, bool) (Agent, error)     { return Agent{}, ErrUnavailable }
func (*NIXL) DestroyAgent(Agent) error                    { return ErrUnavailable }
func (*NIXL) CreateBackend(Agent, string, []string) error { return ErrUnavailable }
func (*NIXL) Plugins(Agent) ([]string, error)             { return nil, ErrUnavailable }
func (*NIXL) Register(Agent, Kind, []Region) error        { return ErrUnavailable }
func (*NIXL) Deregister(Agent, Kind, []Region) error      { return ErrUnavailable }
func (*NIXL) LocalMetadata(Agent) ([]byte, error)         { return nil, ErrUnavailable }
func (*NIXL) LoadRemote(Agent, []byte) (string, error)    { return "", ErrUnavailable }
func (*NIXL) InvalidateRemote(Agent, string) error        { return ErrUnavailable }
func (*NIXL) Connect(Agent, string) error                 { return ErrUnavailable }
func (*NIXL) CreateRequest(Agent, *Job, []Region, []Region) (Request, error) {
	return Request{}, ErrUnavailable
}

func (*NIXL) Post(Agent, Request) error { return ErrUnavailable }

func (*NIXL) Status(Agent, Request) error                                       { return ErrUnavailable }
func (*NIXL) Wait(Agent, []Request, []int32, time.Duration, *atomic.Uint32) int { return 0 }
func (*NIXL) Release(Agent, Request) error                                      { return ErrUnavailable }

func (*NIXL) Telemetry(Agent, Request) (Telemetry, error) { return Telemetry{}, ErrUnavailable }

func (*NIXL) Notify(Agent, string, []byte) error { return ErrUnavailable }

func (*NIXL) Notes(Agent) ([]Note, error) { return nil, ErrUnavailable }
