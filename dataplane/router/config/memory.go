package config

import (
	"cmp"
	"sync"

	"github.com/warmpath/warmpath/dataplane/machine"
)

const (
	// indexShare is the part of the memory that the index may take by default. The collector
	// needs up to as much again; the rest is for requests and the prompt cache.
	indexShare = 4
)

// machineMemory is the memory that this process may use, read once: a limit that the process sets
// for its collector later is no smaller machine.
var machineMemory = sync.OnceValue(machine.Memory)

// defaultIndexBytes returns the index's bound where the operator sets none.
func defaultIndexBytes() int64 { return machineMemory() / indexShare }

// Bound returns the largest size of the router's long-lived memory in bytes, all of the machine's
// for an index without a bound.
func (m Memory) Bound() int64 {
	index := cmp.Or(m.Index, defaultIndexBytes())
	if index < 0 {
		index = machineMemory()
	}
	return index + cmp.Or(m.Approx, defaultApproxBytes) + cmp.Or(m.PromptCache, defaultPromptCacheBytes)
}

// Defaults of the packages routing and promptcache.
const (
	defaultApproxBytes      = 64 << 20
	defaultPromptCacheBytes = 64 << 20
)
