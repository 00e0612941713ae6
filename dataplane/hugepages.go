package dataplane

import (
	"time"

	"github.com/warmpath/warmpath/dataplane/resident"
	"github.com/warmpath/warmpath/radix/hugepage"
)

// hugePages returns what will keep a large heap in huge pages; nil where the operator does not want that.
func hugePages(cfg Config) *hugepage.Collapser {
	if !cfg.HugePages {
		return nil
	}
	cfg.Log.Info("huge pages for a large heap", "kernel", hugepage.Setting())
	return &hugepage.Collapser{}
}

// A router has done most of what it does once when it listens, and all of it startTakes later.
const (
	startBegan = 250 * time.Millisecond
	startTakes = 2 * time.Second
)

// trimOnceStarted gives back what of the program only the start needed: most of it, see package resident; soon, so that it does not add to
// what the first requests need, and once more. The function that it returns calls that off.
func trimOnceStarted() (stop func()) {
	soon := time.AfterFunc(startBegan, func() { resident.Trim() })
	later := time.AfterFunc(startTakes, func() { resident.Trim() })
	return func() {
		soon.Stop()
		later.Stop()
	}
}
