package nixl

import (
	"sync/atomic"
	"time"
)

// downEngine refuses everything, in the place of an engine that could not be created.
type downEngine struct{ err error }

var _ Engine = downEngine{}

func (d downEngine) Register(*Memory) error          { return d.err }
func (d downEngine) Deregister(*Memory) error        { return nil } // nothing is registered here
func (d downEngine) Metadata() ([]byte, error)       { return nil, d.err }
func (d downEngine) LoadPeer([]byte) (string, error) { return "", d.err }
func (d downEngine) ForgetPeer(string) error         { return d.err }
func (d downEngine) Post(Request) error              { return d.err }
func (d downEngine) Release(Request) error           { return d.err }
func (d downEngine) Destroy() error                  { return nil }

func (d downEngine) Create(Op, string, []Region, []Region) (Request, error) { return nil, d.err }

func (d downEngine) Wait([]Request, []int32, time.Duration, *atomic.Uint32) {}
