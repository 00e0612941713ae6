package nixl

import (
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/cgo"
)

// down is the engine of an agent that has none.
type down struct{ err error }

var _ engine = down{}

func (d down) plugins() ([]string, error)               { return nil, d.err }
func (d down) register(*Memory) error                   { return d.err }
func (d down) deregister(*Memory) error                 { return nil } // nothing is registered with it
func (d down) metadata() ([]byte, error)                { return nil, d.err }
func (d down) load([]byte) (string, error)              { return "", d.err }
func (d down) invalidate(string) error                  { return d.err }
func (d down) notify(string, []byte) error              { return d.err }
func (d down) notes() ([]cgo.Note, error)               { return nil, d.err }
func (d down) post(request) error                       { return d.err }
func (d down) release(request) error                    { return d.err }
func (d down) telemetry(request) (cgo.Telemetry, error) { return cgo.Telemetry{}, d.err }
func (d down) destroy() error                           { return nil }

func (d down) create(*cgo.Job, []cgo.Region, []cgo.Region) (request, error) { return nil, d.err }

func (d down) wait([]request, []int32, time.Duration, *atomic.Uint32) int { return 0 }
